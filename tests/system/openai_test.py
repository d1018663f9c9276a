#!/usr/bin/env python3
"""openai_test.py TENON [FILTER] -- `tenon serve` as OpenAI's clients see it, with models that tiny_llm.py makes.

Needs nothing but the standard library; tests/serve/clients_test.py runs OpenAI's own clients.  The last line is `N passed, N failed`.
"""
import atexit, base64, http.client, json, math, os, re, signal, socket, struct, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_llm

TENON = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = tempfile.TemporaryDirectory(prefix="openai_test")
passed, failed, lock = 0, 0, threading.Lock()
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def check(ok, what, seen=""):
    global passed, failed
    with lock:
        if ok: passed += 1
        else:
            failed += 1
            print(f"FAIL {what}\n  {str(seen)[:600]}", flush=True)


def model(kind="llama", seed=1):
    path = os.path.join(FOLDER.name, f"{kind}{seed}")
    if not os.path.isdir(path): tiny_llm.make(path, seed=seed, kind=kind)
    return path


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([TENON, "serve", "--port", "0", "--threads", "1", *map(str, options)], stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # where a test raises
        self.port = int(re.search(r'"port":(\d+)', self.process.stderr.readline())[1])
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        self.local = threading.local()

    def ask(self, method, path, body=None, headers={}):
        """(status, headers, body) on the thread's own connection."""
        if not hasattr(self.local, "c"): self.local.c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if isinstance(body, (dict, list)): body = json.dumps(body)
        self.local.c.request(method, path, body, headers)
        r = self.local.c.getresponse()
        return r.status, r.headers, r.read()

    def json(self, path, body=None):
        status, _, text = self.ask("GET" if body is None else "POST", path, body)
        return status, json.loads(text) if text else None

    def good(self, path, **body):
        status, answer = self.json(path, body)
        check(status == 200, f"{path} {str(body)[:100]}", answer)
        return answer

    def events(self, path, **body):
        """The data of a stream's events, without [DONE], which must end it."""
        status, headers, text = self.ask("POST", path, dict(body, stream=True))
        check(status == 200 and headers["Content-Type"].startswith("text/event-stream"), "a stream", (status, text))
        parts = text.decode().split("\n\n")
        check(parts[-1] == "" and parts[-2] == "data: [DONE]", "its end", parts[-3:])
        return [json.loads(p[6:]) for p in parts[:-2]]

    def ready(self, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            if self.ask("GET", "/ready")[0] == 200: return self
            time.sleep(0.02)
        check(False, "the server becomes ready", self.log)
        return self

    def engines(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                parent = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
                if parent == self.process.pid and "--engine=llm" in open(f"/proc/{pid}/cmdline").read(): found.append(int(pid))
            except (OSError, IndexError): continue
        return found

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(30) == 0, "it ends with status 0", self.log)


def tenon(*args):
    out = subprocess.run([TENON, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    check(out.returncode == 0, args, out.stderr)
    return out.stdout


SAID = {"messages": [{"role": "user", "content": "Hello"}]}


def test_models(s):
    a = s.json("/v1/models")[1]
    check([m["id"] for m in a["data"]] == ["one", "two", "bert", "rank"] and a["object"] == "list", "the list", a)
    check(s.json("/v1/models/one")[1]["max_model_len"] == tiny_llm.CONTEXT, "one model")
    status, a = s.json("/v1/models/none")
    check(status == 404 and a["error"]["code"] == "model_not_found", "no such model", a)


def test_completions(s):
    want = json.loads(tenon("generate", model(), "-p", "Hello", "-n", 40, "--logprobs", 3, "--json"))
    a = s.good(TEXT, model="one", prompt="Hello", max_tokens=40, temperature=0, logprobs=3)
    c = a["choices"][0]
    check(c["text"] == want["text"] and c["finish_reason"] == want["finish_reason"], "the text of tenon generate", (c, want))
    check(a["usage"] == {"prompt_tokens": 5, "completion_tokens": len(want["tokens"]), "total_tokens": 5 + len(want["tokens"])}, "usage", a)
    check(len(c["logprobs"]["tokens"]) == len(c["logprobs"]["token_logprobs"]) == len(c["logprobs"]["text_offset"]), "log-probabilities", c)
    check(all(len(t) == 3 for t in c["logprobs"]["top_logprobs"]), "three of each", c)
    check(a["object"] == "text_completion" and a["id"].startswith("cmpl-") and abs(a["created"] - time.time()) < 100, "the head", a)
    tokens = [72, 101, 108, 108, 111]
    b = s.good(TEXT, model="one", prompt=tokens, max_tokens=40, temperature=0)
    check(b["choices"][0]["text"] == want["text"], "tokens as a prompt", b)
    b = s.good(TEXT, model="one", prompt=["Hello", "Hello"], max_tokens=40, temperature=0)
    check([(c["index"], c["text"]) for c in b["choices"]] == [(0, want["text"]), (1, want["text"])], "two prompts", b)
    check(b["usage"]["prompt_tokens"] == 10, "usage of two prompts", b)
    b = s.good(TEXT, model="one", prompt="Hello", max_tokens=40, temperature=0, echo=True, logprobs=0)["choices"][0]
    check(b["text"] == "Hello" + want["text"], "echo", b)
    check(b["logprobs"]["token_logprobs"][0] is None and len(b["logprobs"]["tokens"]) >= 5, "log-probabilities of the prompt", b)


def test_seeds(s):
    def said(seed, n): return [c["text"] for c in s.good(TEXT, model="one", prompt="Hello", max_tokens=20, seed=seed, n=n)["choices"]]
    four = said(5, 4)
    check(len(set(four)) > 1, "answers differ", four)
    check(four == [said(5 + i, 1)[0] for i in range(4)], "seeds of choices", four)
    bodies = [said(9, 1)[0] for _ in range(3)]
    check(len(set(bodies)) == 1, "one seed, one text", bodies)
    out = [None] * 12
    threads = [threading.Thread(target=lambda i=i: out.__setitem__(i, said(5 + i % 4, 1)[0])) for i in range(12)]
    for t in threads: t.start()
    for t in threads: t.join()
    check(out == four * 3, "the same in company", out)


def test_streams(s):
    for path, more, get in ((TEXT, {"prompt": "Hello"}, lambda c: c["text"]), (CHAT, SAID, lambda c: c["delta"].get("content", ""))):
        more = dict(more, model="one", max_tokens=30, seed=7, n=2)
        whole = s.good(path, **more)
        events = s.events(path, **more, stream_options={"include_usage": True})
        text, finish = ["", ""], [None, None]
        check(events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"], "usage is last", events[-1])
        check(all("usage" in e and e["usage"] is None for e in events[:-1]), "and null before", events[0])
        check(len({e["id"] for e in events}) == 1, "one id", events[0])
        for e in events[:-1]:
            c = e["choices"][0]
            check(finish[c["index"]] is None, "nothing behind a finish_reason", e)
            text[c["index"]] += get(c)
            finish[c["index"]] = c["finish_reason"]
        want = [c["text"] if "text" in c else c["message"]["content"] for c in whole["choices"]]
        check(text == want, "a stream's text", (text, want))
        check(finish == [c["finish_reason"] for c in whole["choices"]], "its finish reasons", finish)
    roles = [e for e in s.events(CHAT, model="one", max_tokens=5, **SAID) if "role" in e["choices"][0]["delta"]]
    check(len(roles) == 1, "the role comes once", roles)


def test_stop(s):
    full = s.good(TEXT, model="one", prompt="Hello", max_tokens=60, temperature=0)["choices"][0]["text"]
    for at in (3, 7, 12):
        stop = full[at : at + 3]
        if len(stop) < 3 or full.find(stop) != at or "\ufffd" in stop: continue
        want = full[:at]
        c = s.good(TEXT, model="one", prompt="Hello", max_tokens=60, temperature=0, stop=[stop, "unlikely"])["choices"][0]
        check(c["text"] == want and c["finish_reason"] == "stop", "a stop text", (c, want, stop))
        events = s.events(TEXT, model="one", prompt="Hello", max_tokens=60, temperature=0, stop=stop)
        check("".join(e["choices"][0]["text"] for e in events) == want, "held back in a stream", (events, want))
    check(s.good(TEXT, model="one", prompt="Hello", max_tokens=60, temperature=0, stop=full[:1])["choices"][0]["text"] == "", "stopped at once")


def test_chat(s):
    c = s.good(CHAT, model="one", max_tokens=20, temperature=0, logprobs=True, top_logprobs=2, **SAID)["choices"][0]
    want = json.loads(tenon("generate", model(), "--chat", "-p", "Hello", "-n", 20, "--json"))
    check(c["message"] == {"role": "assistant", "content": want["text"], "refusal": None}, "the answer of tenon generate --chat", (c, want))
    entry = c["logprobs"]["content"][0]
    check(len(entry["top_logprobs"]) == 2 and entry["logprob"] <= 0 and isinstance(entry["bytes"], list), "log-probabilities", entry)
    joined = bytes(b for e in c["logprobs"]["content"] for b in e["bytes"])
    check(joined.decode(errors="replace") == want["text"], "their bytes are the text", (joined, want["text"]))
    parts = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]}
    b = s.good(CHAT, model="one", max_tokens=20, temperature=0, **parts)["choices"][0]
    check(b["message"]["content"] == want["text"], "parts of text", b)
    prompt = s.good("/apply-template", model="one", messages=[{"role": "developer", "content": "Be."}, {"role": "user", "content": "Hi"}])["prompt"]
    check(prompt == "<|im_start|>system\nBe.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "the template", prompt)


def test_forms(s):
    """Answers of a random model have the form that was asked for, also where max_tokens ends them."""
    for i in range(12):
        c = s.good(CHAT, model="one", max_tokens=8 + 9 * i, temperature=2, seed=i, response_format={"type": "json_object"}, **SAID)["choices"][0]
        try: ok = isinstance(json.loads(c["message"]["content"]), dict)
        except ValueError: ok = False
        check(ok, "a JSON object", c)
        c = s.good(TEXT, model="one", prompt="Hello", max_tokens=20, temperature=2, seed=i, structured_outputs={"regex": "[a-f]{3}-[0-9]+"})["choices"][0]
        check(re.fullmatch("[a-f]{3}-[0-9]+", c["text"]), "a regular expression", c)
        c = s.good(TEXT, model="one", prompt="Hello", temperature=2, seed=i, structured_outputs={"choice": ["yes", "no", "maybe"]})["choices"][0]
        check(c["text"] in ("yes", "no", "maybe"), "a choice", c)
        c = s.good(TEXT, model="one", prompt="Hello", max_tokens=30, temperature=2, seed=i, grammar='root ::= "a" ("b" | root) "c"')["choices"][0]
        check(re.fullmatch("a+bc+", c["text"]) and c["text"].count("a") == c["text"].count("c"), "a grammar", c)
    events = s.events(CHAT, model="one", max_tokens=40, seed=3, response_format={"type": "json_object"}, **SAID)
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events)
    check(isinstance(json.loads(text), dict), "JSON as a stream", text)
    plain = [s.good(TEXT, model="one", prompt="Hello", max_tokens=20, seed=4)["choices"][0]["text"] for _ in range(2)]
    check(plain[0] == plain[1], "text without a form beside it", plain)
    for more in ({"structured_outputs": {"regex": "("}}, {"structured_outputs": {"choice": []}}, {"structured_outputs": {"tree": 1}}, {"grammar": "root = x"}, {"grammar": "x", "structured_outputs": {"regex": "a"}},
                 {"structured_outputs": {"regex": "a{30}"}, "max_tokens": 5}, {"response_format": {"type": "xml"}}, {"response_format": {"type": "json_schema"}}, {"response_format": 7}):
        status, a = s.json(CHAT, dict(SAID, model="one", **more))
        check(status == 400 and a["error"]["message"], f"{more} is refused", (status, a))
    status, a = s.json(CHAT, dict(SAID, model="one", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer", "frobnicate": 1, "$ref": "http://127.0.0.1/"}}}))
    check(status == 400, "a schema that is not understood is refused", a)


def test_responses(s):
    ask = {"model": "one", "instructions": "Be.", "input": "Hello", "max_output_tokens": 12, "seed": 3}
    a = s.good("/v1/responses", **ask)
    c = s.good(CHAT, model="one", max_tokens=12, seed=3, messages=[{"role": "system", "content": "Be."}, {"role": "user", "content": "Hello"}])
    text = a["output"][0]["content"][0]["text"]
    check(text == c["choices"][0]["message"]["content"], "the answer of chat", (a, c))
    check(a["usage"]["input_tokens"] == c["usage"]["prompt_tokens"] and a["usage"]["output_tokens"] == c["usage"]["completion_tokens"], "usage", a["usage"])
    want = ("incomplete", {"reason": "max_output_tokens"}) if c["choices"][0]["finish_reason"] == "length" else ("completed", None)
    check((a["status"], a["incomplete_details"]) == want, "status", a)
    b = s.good("/v1/responses", **dict(ask, input=[{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]))
    check(b["output"][0]["content"][0]["text"] == text, "a list of messages", b)
    status, headers, body = s.ask("POST", "/v1/responses", dict(ask, stream=True))
    events = [part.split("\n") for part in body.decode().split("\n\n")[:-1]]
    check(status == 200 and all(e[0].startswith("event: ") and e[0][7:] == json.loads(e[1][6:])["type"] for e in events), "names of events", events[:2])
    events = [json.loads(e[1][6:]) for e in events]
    check([e["sequence_number"] for e in events] == list(range(len(events))), "their numbers", events)
    check("".join(e["delta"] for e in events if e["type"] == "response.output_text.delta") == text, "their text", events)
    check(events[0]["type"] == "response.created" and events[-1]["response"]["output"][0]["content"] == a["output"][0]["content"], "the end", events[-1])
    for more in ({"input": None}, {"input": []}, {"input": 7}, {"previous_response_id": "x"}, {"tools": [{"type": "web_search"}]}, {"n": 2}, {"input": [{"type": "item_reference", "id": "x"}]}):
        check(s.json("/v1/responses", dict(ask, **more))[0] == 400, f"{more} is refused")


def tools(strict=None):
    """The tools of the tests: one with arguments of several types, one without any."""
    parameters = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}, "unit": {"type": "string", "enum": ["C", "F"]}},
                  "required": ["city", "days"], "additionalProperties": False}
    found = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": parameters}}, {"type": "function", "function": {"name": "get_time"}}]
    if strict is not None: found[0]["function"]["strict"] = strict
    return found


def fits(call):
    """Whether a call names a tool, and its arguments fit the schema."""
    name, args = call["function"]["name"], json.loads(call["function"]["arguments"])
    if name == "get_time": return args == {}
    return name == "get_weather" and isinstance(args["city"], str) and args["days"] in range(1, 10) and args.get("unit", "C") in "CF" and set(args) <= {"city", "days", "unit"}


def joined(events):
    """The message that a stream's deltas make."""
    m = {"content": "", "reasoning_content": "", "tool_calls": []}
    for e in events:
        d = e["choices"][0]["delta"]
        for k in ("content", "reasoning_content"): m[k] += d.get(k) or ""
        for c in d.get("tool_calls", []):
            if "id" in c:
                check(c["index"] == len(m["tool_calls"]) and c["type"] == "function" and c["function"]["arguments"] == "", "the first piece of a call", c)
                m["tool_calls"].append({"id": c["id"], "type": "function", "function": dict(c["function"])})
            else: m["tool_calls"][c["index"]]["function"]["arguments"] += c["function"]["arguments"]
    return m


def test_tools():
    names = ("hermes", "qwen3_coder", "thinks")
    for n in ("one", *names): tiny_llm.make(os.path.join(FOLDER.name, n), chat=tiny_llm.TOOL_CHAT.get(n, tiny_llm.CHAT), context=2048)
    s = Server(*(f"{n}={os.path.join(FOLDER.name, n)}" for n in ("one", *names))).ready()
    said = dict(SAID, temperature=1, max_tokens=200)
    for name in ("one", *names):  # `one` has a template that knows no tools
        for seed in range(4):
            more = dict(said, model=name, seed=seed, tools=tools())
            for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
                c = s.good(CHAT, **dict(more, tool_choice=choice, parallel_tool_calls=seed % 2 > 0))["choices"][0]
                calls = c["message"]["tool_calls"]
                ok = c["finish_reason"] in ("tool_calls", "length") and c["message"]["content"] is None and all(map(fits, calls)) and len({t["id"] for t in calls}) == len(calls)
                check(ok and calls, f"{name}: calls that fit", c)
                if isinstance(choice, dict): check([t["function"]["name"] for t in calls] == ["get_weather"], "the named one", calls)
                elif not seed % 2: check(len(calls) == 1, "one call", calls)
                check(("reasoning_content" in c["message"]) <= (name == "thinks"), "reasoning", c)
                got = joined(s.events(CHAT, **dict(more, tool_choice=choice, parallel_tool_calls=seed % 2 > 0)))
                strip = lambda calls: [t["function"] for t in calls]
                check(strip(got["tool_calls"]) == strip(calls) and not got["content"] and got["reasoning_content"] == c["message"].get("reasoning_content", ""), "the same as a stream", (got, c))
            c = s.good(CHAT, **more)["choices"][0]
            m = c["message"]
            check(all(map(fits, m.get("tool_calls", []))) and (m["content"] is not None or m["tool_calls"]), f"{name}: auto", c)
            got = joined(s.events(CHAT, **more))
            check(got["content"] == (m["content"] or "") and len(got["tool_calls"]) == len(m.get("tool_calls", [])), "auto as a stream", (got, c))
            c = s.good(CHAT, **dict(more, tool_choice="none"))["choices"][0]["message"]
            check("tool_calls" not in c, "none", c)
    # What the conversation says comes back to the template.
    turn = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "c1", "content": "noon"}]
    prompt = s.good("/apply-template", model="hermes", messages=turn, tools=tools())["prompt"]
    check('<tool_call>\n{"name": "get_time", "arguments": {"a": 1}}\n</tool_call>' in prompt and "<|im_start|>tool\nnoon" in prompt and "get_weather" in prompt, "a conversation with calls", prompt)
    prompt = s.good("/apply-template", model="one", messages=turn, tools=tools())["prompt"]
    check("<tools>" in prompt and "get_weather" in prompt and '{"name": "get_time", "arguments": {"a":1}}' in prompt and "<tool_response>\nnoon\n</tool_response>" in prompt, "a template that knows no tools", prompt)
    s.good(CHAT, model="hermes", messages=turn, tools=tools(), max_tokens=5)
    check("tools" not in s.good("/apply-template", model="hermes", messages=turn, tools=tools(), tool_choice="none")["prompt"].lower(), "none: the template sees no tools")
    # Reasoning is apart, and a form begins behind it.
    c = s.good(CHAT, model="thinks", response_format={"type": "json_object"}, **dict(said, seed=1))["choices"][0]["message"]
    check(isinstance(json.loads(c["content"]), dict) and "</think>" not in c["content"], "a form behind reasoning", c)
    flat = [{"type": "function", **t["function"]} for t in tools()]
    ask = {"model": "hermes", "input": "Hello", "tools": flat, "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 200, "seed": 2}
    a = s.good("/v1/responses", **ask)
    call = a["output"][0]
    check(call["type"] == "function_call" and call["call_id"] and fits({"function": call}) and a["tools"] == flat and a["tool_choice"] == "required", "a response that calls", a)
    _, _, body = s.ask("POST", "/v1/responses", dict(ask, stream=True))
    events = [json.loads(part.split("\n")[1][6:]) for part in body.decode().split("\n\n")[:-1]]
    check("".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta") == call["arguments"], "its stream", events)
    check([e["item"]["type"] for e in events if e["type"] == "response.output_item.done"] == ["function_call"] and events[-1]["response"]["output"][0]["name"] == call["name"], "its items", events[-1])
    again = [{"role": "user", "content": "Hello"}, call, {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
    s.good("/v1/responses", model="hermes", input=again, tools=flat, max_output_tokens=5)
    a = s.good("/v1/responses", model="thinks", input="Hello", max_output_tokens=200, seed=1)
    check(a["output"][0]["type"] == "reasoning" and a["output"][0]["content"][0]["type"] == "reasoning_text", "reasoning of a response", a)
    bad = {"type": "object", "properties": {"x": {"type": "string", "not": {}, "pattern": "(?=a)"}}}
    wrong = [{"tools": 7}, {"tools": [7]}, {"tools": [{"type": "web_search"}]}, {"tools": [{"type": "function"}]}, {"tools": [{"type": "function", "function": {"name": "a b"}}]},
             {"tools": tools() + tools()}, {"tools": [{"type": "function", "function": {"name": f"f{i}"}} for i in range(129)]}, {"tools": [{"type": "function", "function": {"name": "f", "parameters": 3}}]},
             {"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "get_time"}}}, {"tools": tools(), "tool_choice": "perhaps"},
             {"tools": tools(), "tool_choice": {"type": "function", "function": {"name": "other"}}}, {"tools": tools(), "parallel_tool_calls": "no"},
             {"tools": tools(), "response_format": {"type": "json_object"}}, {"tools": tools(), "tool_choice": "required", "max_tokens": 5},
             {"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": bad}}]}, {"tools": [{"type": "function", "function": {"name": "f", "parameters": bad}}], "tool_choice": "required"}]
    for more in wrong:
        status, a = s.json(CHAT, dict(SAID, model="hermes", **more))
        check(status == 400 and a["error"]["message"], f"{str(more)[:100]} is refused", (status, a))
    s.good(CHAT, model="hermes", max_tokens=5, tools=[{"type": "function", "function": {"name": "f", "parameters": bad}}], **SAID)  # auto: without a grammar
    s.stop()


def test_tool_templates():
    """Templates that are strict about turns or tools."""
    names = ("turns", "described", "qwen3_coder")
    for n in names: tiny_llm.make(os.path.join(FOLDER.name, n), chat=tiny_llm.TOOL_CHAT[n], context=2048)
    s = Server(*(f"{n}={os.path.join(FOLDER.name, n)}" for n in names)).ready()
    bare = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}, {"type": "function", "function": {"name": "get_time"}}]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": "{\"a\": 1}"}}]}
    hi, noon, thanks = {"role": "user", "content": "Hi"}, {"role": "tool", "tool_call_id": "c1", "content": "noon"}, {"role": "user", "content": "And now?"}
    be = {"role": "system", "content": "Be short."}
    for messages in ([hi], [hi, call, noon], [be, hi, call, noon], [hi, call, noon, thanks], [be, hi, call, noon, {"role": "assistant", "content": "12"}, thanks]):
        prompt = s.good("/apply-template", model="turns", messages=messages, tools=bare)["prompt"]
        check("<tools>" in prompt and "Hi<|im_end|>" in prompt and "system" not in prompt.split("Hi")[0], "tools in the first user's message", prompt)
        for m, text in ((be, "Be short."), (noon, "<tool_response>\nnoon"), (call, '{"name": "get_time", "arguments": {"a":1}}'), (thanks, "And now?")): check((m in messages) == (text in prompt), f"{text} is there", prompt)
    prompt = s.good("/apply-template", model="described", messages=[hi], tools=bare)["prompt"]
    check(prompt.startswith('get_weather: {"city": {"type": "string"}};get_time: {};'), "functions without a description", prompt)
    prompt = s.good("/apply-template", model="described", messages=[hi, call, noon], tools=bare)["prompt"]
    check(prompt.endswith('user Hi;assistant get_time{"a":1};tool noon;'), "and arguments as text", prompt)
    status, a = s.json("/apply-template", {"model": "turns", "messages": [thanks, hi, call, noon], "tools": bare})
    check(status == 400 and a["error"]["message"].count("alternate") == 1, "an error is told once", (status, a))
    status, a = s.json("/apply-template", {"model": "turns", "messages": [hi, call, hi, hi]})
    check(status == 400 and a["error"]["message"].count("alternate") == 1, "and without tools", (status, a))
    # Arguments between markers: texts are not quoted, and what cannot be said so is refused.
    said = dict(SAID, model="qwen3_coder", tool_choice="required", temperature=1, max_tokens=200)
    for schema, values in (({"enum": ["celsius", "fahrenheit"]}, ("celsius", "fahrenheit")), ({"anyOf": [{"const": "p"}, {"type": "string", "enum": ["q", "3"]}]}, ("p", "q", "3")), ({"enum": ["x", 5]}, ("x", 5)), ({"type": ["string"]}, None)):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}, "required": ["a"]}}}
        for seed in range(3):
            calls = s.good(CHAT, **said, seed=seed, tools=[tool])["choices"][0]["message"]["tool_calls"]
            for c in calls:
                a = json.loads(c["function"]["arguments"])
                check(set(a) == {"a"} and (a["a"] in values and (type(a["a"]) is not str or a["a"] in [v for v in values if type(v) is str]) if values else isinstance(a["a"], str)), f"{schema} holds", a)
    for parameters, word in (({"anyOf": [{"required": ["a"]}]}, "anyOf"), ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, "$ref"), ({"minProperties": 2}, "minProperties"), ({"properties": [1]}, "properties"), ({"type": "string"}, "type"),
                             ({"properties": {"a": {"type": "string"}}, "required": ["a", "b"]}, "'b'"), ({"not": {}}, "not"), ({"properties": {"a": {"enum": ["x</parameter>"]}}}, "</parameter>")):
        status, a = s.json(CHAT, dict(said, tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}]))
        check(status == 400 and word in a["error"]["message"], f"{parameters} is refused", (status, a))
    # Many calls, each with its result: what they take grows with their number, not with its square.
    items = [hi]
    for i in range(20000): items += [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "x"}]
    status, a = s.json("/v1/responses", {"model": "qwen3_coder", "input": items, "tools": [], "max_output_tokens": 5})
    check(status == 400 and "context" in a["error"]["message"], "a long conversation", (status, a))
    s.stop()


def test_texts(s):
    a = s.good("/tokenize", model="one", content="Hi ä<|im_end|>", with_pieces=True)["tokens"]
    check([t["id"] for t in a][-1] == 258 and a[0] == {"id": 72, "piece": "H"}, "tokens", a)
    ids = s.good("/tokenize", model="one", content="Hi ä")["tokens"]
    check(s.good("/detokenize", model="one", tokens=ids)["content"] == "Hi ä", "and back", ids)


def test_embeddings(s):
    want = [json.loads(line)["embedding"] for line in tenon("embed", model("bert"), "-p", "Hello", "-p", "other").decode().splitlines()]
    a = s.good("/v1/embeddings", model="bert", input=["Hello", "other"])
    check([d["embedding"] for d in a["data"]] == want and [d["index"] for d in a["data"]] == [0, 1], "vectors of tenon embed", a)
    check(a["usage"]["prompt_tokens"] == a["usage"]["total_tokens"] == 14, "usage", a["usage"])
    b = s.good("/v1/embeddings", model="bert", input="Hello", encoding_format="base64")["data"][0]["embedding"]
    got = struct.unpack(f"<{len(want[0])}f", base64.b64decode(b))
    check(all(math.isclose(x, y, rel_tol=1e-6) for x, y in zip(got, want[0])), "base64", b)
    check(s.json("/v1/embeddings", {"model": "bert", "input": "x" * 600})[0] == 400, "too long")
    check(s.json("/v1/embeddings", {"model": "bert", "input": "x" * 600, "truncate": True})[0] == 200, "cut where asked")
    status, a = s.json(TEXT, {"model": "bert", "prompt": "Hello"})
    check(status == 400 and "generates nothing" in a["error"]["message"], "an encoder does not generate", a)
    check(s.json("/v1/embeddings", {"model": "bert", "input": "Hello", "dimensions": 7})[0] == 400, "other dimensions")


def test_rerank(s):
    documents = ["Paris", "Lyon is a city", "x"]
    want = [json.loads(line) for line in tenon("rerank", model("rank"), "-q", "capital", *(w for d in documents for w in ("-p", d)), "--json").decode().splitlines()]
    a = s.good("/v1/rerank", model="rank", query="capital", documents=documents, return_documents=True)
    check([r["index"] for r in a["results"]] == [w["index"] for w in want], "the order of tenon rerank", (a, want))
    check(all(math.isclose(r["relevance_score"], 1 / (1 + math.exp(-w["scores"][0])), rel_tol=1e-5) for r, w in zip(a["results"], want)), "scores", a)
    check(a["results"][0]["document"]["text"] == documents[want[0]["index"]], "documents", a)
    check(len(s.good("/v1/rerank", model="rank", query="capital", documents=documents, top_n=1)["results"]) == 1, "top_n")
    check(s.json("/v1/rerank", {"model": "one", "query": "a", "documents": ["b"]})[0] == 400, "a model without a head")


def fields():
    """(name, kind, least, most) of limits.def."""
    text = open(os.path.join(ROOT, "src/serve/limits.def")).read()
    number = {"INT64_MIN": -(2**63), "INT64_MAX": 2**63 - 1}
    for name, kind, least, most in re.findall(r"^SERVE_FIELD\((\w+), (\w+), ([^,]+), ([^,]+),", text, re.M):
        yield name, kind, *(number[v] if v in number else float(v) if kind == "REAL" else int(v) for v in (least, most))


def test_ranges(s):
    """Every number of a request at both ends of its range, and beyond."""
    where = {"top_logprobs": (CHAT, dict(SAID, logprobs=True)), "dimensions": ("/v1/embeddings", {"model": "bert", "input": "Hello"}), "max_output_tokens": ("/v1/responses", {"model": "one", "input": "Hello"}),
             "top_n": ("/v1/rerank", {"model": "rank", "query": "a", "documents": ["b"]})}
    for name, kind, least, most in fields():
        place = where.get(name, (TEXT, {"prompt": "Hello"}))
        path, base = place[0], dict({"model": "one", "max_tokens": 1, "seed": 1} if place[0] in (TEXT, CHAT) else {}, **place[1])
        beyond = [least - 1, most + 1] if kind == "INT" else [least - 0.001, most + 0.001, 1e308]
        for v in [*beyond, "1", [], True, 2**63, -(2**63) - 1]:
            status, a = s.json(path, dict(base, **{name: v}))
            check(status == 400 and a["error"]["param"] == name and a["error"]["type"] == "invalid_request_error", f"{name} = {v!r} is refused", (status, a))
        for v in (least, most):
            if name in ("max_tokens", "max_completion_tokens", "max_output_tokens", "dimensions") and v == most: continue  # beyond this model
            more = {"n": v} if name == "best_of" else {}
            status, a = s.json(path, dict(base, **{name: v}, **more))
            check(status == 200 or name == "dimensions", f"{name} = {v!r} is taken", (status, a))
        for raw in ("NaN", "Infinity", "1e999"):
            status, a = s.json(path, json.dumps(dict(base, **{name: "RAW"})).replace('"RAW"', raw))
            check(status == 400, f"{name} = {raw}", a)


def test_wrong(s):
    text = {"model": "one", "prompt": "Hello", "max_tokens": 1}
    for more, param in (({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [1, "a"]}, "prompt"), ({"prompt": {}}, "prompt"), ({"prompt": None}, "prompt"),
                        ({"prompt": ["a"] * 129}, "prompt"), ({"prompt": ["a", "b"], "n": 128}, "prompt"), ({"stop": ["a"] * 17}, "stop"), ({"stop": "x" * 257}, "stop"),
                        ({"stop": [""]}, "stop"), ({"stop": 7}, "stop"), ({"stop": "a\0b"}, "stop"), ({"logit_bias": {"x": 1}}, "logit_bias"), ({"logit_bias": {"1": 101}}, "logit_bias"),
                        ({"logit_bias": {str(i): 1 for i in range(301)}}, "logit_bias"), ({"model": 7}, "model"), ({"model": None}, "model"), ({"stream": 1}, "stream"),
                        ({"stream_options": {"include_usage": True}}, "stream_options"), ({"unknown": 1}, "unknown"), ({"suffix": "x"}, "suffix"), ({"best_of": 2}, "best_of")):
        status, a = s.json(TEXT, dict(text, **more))
        check(status == 400 and a["error"]["param"] == param and a["error"]["message"], f"{str(more)[:60]} is refused", (status, a))
    for more in ({"prompt": [10**6]}, {"prompt": [-1]}, {"prompt": "x" * 600}, {"logit_bias": {"100000": 1}}, {"max_tokens": 16777216}):
        status, a = s.json(TEXT, dict(text, **more))
        check(status == 400 and a["error"]["message"], f"{str(more)[:60]} does not fit the model", (status, a))
    url = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
    for messages in ([], [{}], [{"role": "x", "content": "a"}], [{"role": "user", "content": 7}], [{"role": "user", "content": [url]}], [{"role": "user", "content": [{"type": "text"}]}], 7,
                     ["x"], [{"role": "assistant", "tool_calls": [{}]}], [{"role": "user", "content": [{"type": "file", "file": {"file_data": "file:///etc/passwd"}}]}]):
        status, a = s.json(CHAT, {"model": "one", "messages": messages})
        check(status == 400 and (a["error"]["param"] or "").startswith("messages"), f"{str(messages)[:60]} is refused", (status, a))
    for body in (b"", b"{", b"[]", b"7", b'{"model":"one","model":"two"}', b'{"model":"\xff"}', b"[" * 100000, b"{}x"):
        for path in (TEXT, CHAT, "/v1/embeddings", "/v1/rerank", "/tokenize", "/detokenize", "/apply-template"):
            status, _, a = s.ask("POST", path, body)
            check(status == 400 and json.loads(a)["error"]["type"] == "invalid_request_error", f"{path} {body[:20]}", (status, a))
    for path in (TEXT, CHAT, "/v1/embeddings", "/v1/rerank", "/tokenize"):
        status, a = s.json(path, {"model": "../../etc/passwd", **text, **SAID} | {"model": "../../etc/passwd"})
        check(status == 404 and a["error"]["code"] == "model_not_found", f"{path} of no model", (status, a))


def wait_for(what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if what(): return True
        time.sleep(0.02)
    return False


def raw_stream(s, tokens):
    body = json.dumps({"model": "one", "prompt": "Hello", "max_tokens": tokens, "ignore_eos": True, "stream": True}).encode()
    c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    return c


def metric(s, name, model="one"):
    text = s.ask("GET", "/metrics")[2].decode()
    found = re.search(rf'^{name}{{model="{model}"}} (\S+)$', text, re.M)
    return float(found[1]) if found else None


def test_metrics(s):
    text = s.ask("GET", "/metrics")[2].decode()
    for line in text.splitlines():
        check(re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+({\w+="[^"]*"(,\w+="[^"]*")?})? -?[0-9.e+-]+', line), "a line of metrics", line)
    before = {n: metric(s, n) for n in ("tenon_generated_tokens_total", "tenon_prompt_tokens_total", "tenon_requests_total", "tenon_first_token_seconds_count")}
    s.good(TEXT, model="one", prompt="Hello", max_tokens=7, ignore_eos=True, n=2)
    want = {"tenon_generated_tokens_total": 14, "tenon_prompt_tokens_total": 10, "tenon_requests_total": 2, "tenon_first_token_seconds_count": 2}
    check({n: metric(s, n) - v for n, v in before.items()} == want, "what a request adds", before)
    for kind in ("first_token", "next_token", "request", "queue"):
        counts = [float(v) for v in re.findall(rf'tenon_{kind}_seconds_bucket{{model="one",le="[^"]+"}} (\S+)', s.ask("GET", "/metrics")[2].decode())]
        check(counts == sorted(counts) and counts[-1] == metric(s, f"tenon_{kind}_seconds_count") > 0, f"{kind}: a histogram", counts)


def test_cancel(s):
    """A client that goes away ends its sequence and frees its pages."""
    cancelled = metric(s, "tenon_requests_cancelled_total")
    for _ in range(20):
        c = raw_stream(s, 490)
        c.recv(50)
        c.close()
    check(wait_for(lambda: metric(s, "tenon_engine_running") == 0 and metric(s, "tenon_queue_requests") == 0), "nothing runs any more")
    check(metric(s, "tenon_requests_cancelled_total") > cancelled, "requests were cancelled", cancelled)
    check(metric(s, "tenon_kv_pages_free") + metric(s, "tenon_kv_pages_cached") == metric(s, "tenon_kv_pages"), "all pages are back")


def test_death(s):
    c = raw_stream(s, 500)
    c.recv(100)
    before = s.engines()
    check(len(before) == 4, "an engine for each model", before)
    for pid in before: os.kill(pid, signal.SIGKILL)
    end = b""
    while part := c.recv(65536): end += part
    check(b"[DONE]" in end or b'"error"' in end, "the stream is ended", end[-300:])
    # The front says that it is ready until it has seen that an engine died.
    check(wait_for(lambda: len(s.engines()) == 4 and set(s.engines()).isdisjoint(before)), "other engines", s.engines())
    s.ready()
    s.good(TEXT, model="one", prompt="Hello", max_tokens=3)


def test_keys():
    keys = os.path.join(FOLDER.name, "keys.txt")
    with open(keys, "w") as f: f.write("# keys\nfirst\nsecond\n")
    s = Server(f"one={model()}", "--api-key-file", keys, "--key-requests", 1, "--sequences", 1, "--log", "requests", "--log-text", 1)
    ask = json.dumps({"model": "one", "prompt": "Hello", "max_tokens": 5})
    for header, want in ((None, 401), ("Bearer other", 401), ("first", 401), ("Bearer first", 200), ("bearer second", 200)):
        s.ready()
        status, _, a = s.ask("POST", TEXT, ask, {"Authorization": header} if header else {})
        check(status == want, f"key {header}: {want}", (status, a))
    check(s.ask("GET", "/v1/models")[0] == 401 and s.ask("GET", "/health")[0] == 200, "routes with and without a key")
    # A request can be made again from its log line.
    _, _, first = s.ask("POST", TEXT, ask, {"Authorization": "Bearer first"})
    check(wait_for(lambda: sum("completion_tokens" in line for line in s.log) >= 3), "lines of requests", s.log)
    line = [json.loads(l) for l in s.log if "completion_tokens" in l][-1]
    _, _, again = s.ask("POST", line["path"], dict(json.loads(line["request"]), seed=line["seed"]), {"Authorization": "Bearer first"})
    check(json.loads(first)["choices"] == json.loads(again)["choices"], "the same answer from the log line", (first, again))
    s.stop()


def test_queue():
    s = Server(f"one={model()}", "--sequences", 1, "--queue", 1).ready()
    # Two places of the engine, one that waits, and the others are refused.
    held = [raw_stream(s, 480) for _ in range(40)]
    status = []
    for c in held: status.append(int(c.recv(12)[9:12]))
    check(status.count(429) > 0 and status[0] == 200, "beyond the queue", status)
    for c in held: c.close()
    ok = wait_for(lambda: s.json(TEXT, {"model": "one", "prompt": "Hello", "max_tokens": 1})[0] == 200)
    check(ok, "room again when clients are gone")
    c = raw_stream(s, 480)
    c.recv(200)
    s.process.send_signal(signal.SIGTERM)
    got = b""
    while part := c.recv(65536): got += part
    check(b"data: [DONE]" in got, "SIGTERM: what was accepted is answered", got[-200:])
    check(s.process.wait(30) == 0, "and then it ends")


def test_budget():
    one, two = model(), model(seed=2)
    s = Server(f"one={one}", "--context", 64).ready()
    size = s.json("/v1/models/one")[1]["memory_bytes"]
    s.stop()
    s = Server(f"one={one}", f"two={two}", "--memory-budget", size * 3 // 2, "--context", 64)
    check(not s.engines(), "nothing is loaded at the start")
    for _ in range(2):
        for name in "one", "two":
            s.good(TEXT, model=name, prompt="Hello", max_tokens=3)
            check(wait_for(lambda: len(s.engines()) == 1), "one at a time", s.engines())
    s.stop()


def adapter(seed):
    """A LoRA adapter of the tiny model as PEFT saves one, of rank 4 for the query's product."""
    import random
    rng, path, header, data = random.Random(seed), os.path.join(FOLDER.name, f"adapter{seed}"), {}, b""
    os.makedirs(path, exist_ok=True)
    width = tiny_llm.HEADS * tiny_llm.HEAD
    for i in range(tiny_llm.LAYERS):
        for name, shape in (("A", [4, tiny_llm.HIDDEN]), ("B", [width, 4])):
            values = struct.pack(f"<{shape[0] * shape[1]}f", *(rng.gauss(0, 0.5) for _ in range(shape[0] * shape[1])))
            header[f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "adapter_model.safetensors"), "wb") as f: f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(path, "adapter_config.json"), "w") as f: json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}, f)
    return path


def test_adapters():
    a, b = adapter(1), adapter(2)
    s = Server(f"one={model()}", "--lora", f"first=one:{a}", "--lora", f"second=one:{b}").ready()
    check([m["id"] for m in s.json("/v1/models")[1]["data"]] == ["one", "first", "second"], "names of adapters")
    check(s.json("/v1/models/second")[1]["parent"] == "one", "of one model")
    want = {"one": [], "first": ["--adapter", a], "second": ["--adapter", b]}
    want = {n: json.loads(tenon("generate", model(), "-p", "Hello", "-n", 20, "--json", *more))["text"] for n, more in want.items()}
    check(len(set(want.values())) == 3, "adapters change the text", want)
    out = {}
    def said(i, name): out[i, name] = s.good(TEXT, model=name, prompt="Hello", max_tokens=20, temperature=0)
    threads = [threading.Thread(target=said, args=(i, n)) for i in range(4) for n in want]
    for t in threads: t.start()
    for t in threads: t.join()
    check(all(o["choices"][0]["text"] == want[n] and o["model"] == n for (_, n), o in out.items()), "each its own text, in one batch", (out, want))
    s.stop()
    for spec in ("x", "x=one", "one=one:" + a, "x=none:" + a):
        r = subprocess.run([TENON, "serve", f"one={model()}", "--port", "0", "--lora", spec], stderr=subprocess.PIPE, timeout=30)
        check(r.returncode == 1 and b"failed" in r.stderr, f"--lora {spec} is refused", r.stderr)


def main():
    tests = {n[5:]: f for n, f in globals().items() if n.startswith("test_")}
    want = sys.argv[2] if len(sys.argv) > 2 else ""
    shared = [n for n, f in tests.items() if f.__code__.co_argcount and want in n]
    if shared:
        s = Server(f"one={model()}", f"two={model(seed=2)}", f"bert={model('bert')}", f"rank={model('rank')}").ready()
        for name in shared: tests[name](s)
        s.stop()
    for name, f in tests.items():
        if not f.__code__.co_argcount and want in name: f()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__": sys.exit(main())
