#!/usr/bin/env python3
"""serve.py -- tenon-serve under load; the clients are one process of bench/serve_load.c on the same machine.

    bench/serve.py noop [--connections 64] [--pipeline 1] [--seconds 5] [--rounds 3]
        A model of four elements that does nothing, by KServe's REST over kept connections.
    bench/serve.py llm MODEL.gguf [--llama DIR] [--streams 16] [--requests 64] [--tokens 64] [--threads 2] [--rounds 2]
        Streams of a language model: tokens per second and the time between tokens; with --llama also of llama-server, in the folder
        that ../shared/tools/llamacpp.sh made (as root, by chroot), one after the other in each round.
    bench/serve.py batching [MODEL.onnx] [--clients 32] [--seconds 10] [--batch 8] [--delay 20000] [--rounds 2] [--ort]
        A network whose dimension 0 is made a symbol: each request alone, in dynamic batches, and ONNX Runtime behind the same client.
        Without a model ResNet-50 of build/nets (tools/nets.sh resnet50).
    bench/serve.py crowd MODEL [--connections 10000] [--active 64] [--overload 10] [--drop 5] [--churn 50] [--seconds 60]
        A language model with `--active` sequences and as many requests that may wait.  First the capacity: `--active` streams and no
        others.  Then all connections, `--overload` times as many requests as that, 5 % of them dropped somewhere, and idle connections
        reset: tokens of whole answers beside the capacity, the time to a 429, pages of the KV cache, and memory beside what was reserved.
    bench/serve.py soak [--minutes 60] [--clients 4] [--rate 0]
        Two small language models of random weights, one of them with two LoRA adapters, and a compiled model alternate in a memory
        budget for two; with --rate at most so many requests a second.  Every answer must have the bits of the first one to its request.  Ends with what memory and descriptors of the
        front have grown by since the first tenth of the time.

Processor seconds are of the front (HTTP), the engines and the load.  What is bounded by them on N cores is their sum divided by N,
or the front's alone, which is one thread.  Only 127.0.0.1 is called.  TENON is the program.
"""
import argparse, json, os, random, re, shutil, socket, struct, sys, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "lib"))
import server

NOOP = 'graph @"noop"(%x: f32[n, 4]) -> (y: f32[n, 4]) {\n  %y = abs(%x)\n  return %y\n}\n'


def used(before, after, server_pid):
    """Processor seconds of the front and of the engines."""
    front = after.get(server_pid, 0) - before.get(server_pid, 0)
    return front, sum(after[p] - before.get(p, 0) for p in after if p != server_pid)


def noop(args):
    with server.folder() as f:
        model = server.write_body(f, "noop.tir", NOOP)
        body = server.write_body(f, "body", json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}))
        s = server.tenon(model, *args.option)
        for _ in range(args.rounds):
            before = s.cpu()
            r = server.load(s.port, "/v2/models/noop/infer", body, connections=args.connections, pipeline=args.pipeline, seconds=args.seconds)
            front, engines = used(before, s.cpu(), s.process.pid)
            n = max(r["ok"], 1)
            us = [1e6 * t / n for t in (front, engines, r["cpu_seconds"])]
            print(f"{r['per_second']:9.0f} requests/s, p50 {r['ok_ms']['p50']:.2f} ms, p99 {r['ok_ms']['p99']:.2f} ms; processor us a request: "
                  f"front {us[0]:.1f}, engine {us[1]:.1f}, load {us[2]:.1f}; two cores allow {2e6 / max(sum(us), 2 * us[0]):.0f}; {r['status']} errors {r['errors']}", flush=True)
        s.stop()


# ---- streams of a language model ----
WORDS = "the a river stone light house green small runs walks under over because when mountain winter bread paper glass music old new quiet loud".split()


def prompts(n, words, seed):
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(words)) for _ in range(n)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def llama_server(root, model, args):
    """In its own root, with the model put there."""
    root = os.path.join(root, "root")
    inside = os.path.join(root, "models", os.path.basename(model))
    if not os.path.exists(inside): shutil.copy(model, inside)
    port = free_port()
    command = ["chroot", root, "/usr/bin/llama-server", "-m", "/models/" + os.path.basename(model), "--host", "127.0.0.1", "--port", port, "-t", args.threads, "-tb", args.threads,
               "-np", args.streams, "-c", args.streams * args.context, "--no-cache-prompt"]
    return server.Server([str(c) for c in command], port=port, ready="/health")


def llm(args):
    names = ["tenon"] + ["llama-server"] * bool(args.llama)
    with server.folder() as f:
        for round in range(args.rounds):
            for name in names:
                if name == "tenon": s = server.tenon("m=" + args.model, "--sequences", args.streams, "--context", args.context, "--threads", args.threads, *args.option)
                else: s = llama_server(args.llama, args.model, args)
                asks = [json.dumps({"model": "m", "prompt": p, "max_tokens": args.tokens, "ignore_eos": True, "temperature": args.temperature, "seed": 1, "stream": True}) for p in prompts(args.requests, args.words, round)]
                body, warm = server.write_body(f, "asks", "\n".join(asks)), server.write_body(f, "warm", asks[0].replace("the", "then"))
                server.load(s.port, "/v1/completions", warm, "--stream", requests=1, seconds=300)
                before = s.cpu()
                r = server.load(s.port, "/v1/completions", body, "--lines", "--stream", connections=args.streams, requests=args.requests, seconds=3600)
                front, engines = used(before, s.cpu(), s.process.pid)
                tokens = r["ok"] * args.tokens
                print(f"{name:12} {tokens / r['seconds']:8.1f} tokens/s, processor {1e3 * (front + engines) / max(tokens, 1):.2f} ms a token (front {1e3 * front / max(tokens, 1):.3f}), first token p50 {r['first_ms']['p50']:.0f} ms, "
                      f"between tokens mean {r['gap_ms']['mean']:.1f} p50 {r['gap_ms']['p50']:.1f} p99 {r['gap_ms']['p99']:.1f} ms; events {r['events']} of {tokens} tokens, {r['status']}, errors {r['errors']}", flush=True)
                s.stop()


# ---- dynamic batches ----
def symbolic(path, to):
    """The same network with the symbol `n` as dimension 0 of its inputs and outputs; the shape of an input."""
    import onnx
    m = onnx.load(path)
    del m.graph.value_info[:]
    for v in [*m.graph.input, *m.graph.output]: v.type.tensor_type.shape.dim[0].dim_param = "n"
    for node in m.graph.node:  # shapes that name the batch
        if node.op_type == "Reshape":
            for t in m.graph.initializer:
                if t.name == node.input[1]:
                    shape = onnx.numpy_helper.to_array(t).copy()
                    if len(shape) and shape[0] == 1: shape[0] = 0; t.CopyFrom(onnx.numpy_helper.from_array(shape, t.name))
    onnx.save(m, to)
    x = next(v for v in m.graph.input if v.name not in {t.name for t in m.graph.initializer})
    return x.name, [1] + [d.dim_value for d in x.type.tensor_type.shape.dim[1:]]


def image_ms(model, name, shape, batch, rounds=9):
    """Processor milliseconds of an image by itself and in a batch, in this process on one thread: what batches can gain at most."""
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import numpy, tenon
    net, took = tenon.compile(model, batch_invariant=True, threads=1), {1: [], batch: []}
    inputs = {n: {name: numpy.random.default_rng(1).random((n, *shape[1:]), "float32")} for n in took}
    for round in range(rounds + 1):  # the first one is not counted
        for n in took:
            before = time.process_time()
            for _ in range(batch // n): net(**inputs[n])
            if round: took[n].append(1e3 * (time.process_time() - before) / batch)
    return [sorted(took[n])[rounds // 2] for n in took]


def batching(args):
    with server.folder() as f:
        model = os.path.join(f, "m.onnx")
        name, shape = symbolic(args.model, model)
        alone, together = image_ms(model, name, shape, args.batch)
        print(f"in one process, one thread: processor {alone:.1f} ms an image alone, {together:.1f} ms in batches of {args.batch}", flush=True)
        n = 1
        for d in shape: n *= d
        data = struct.pack(f"<{n}f", *(random.Random(1).random() for _ in range(n)))
        head = json.dumps({"inputs": [{"name": name, "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}], "parameters": {"binary_data_output": True}}).encode()
        body = server.write_body(f, "body", head + data)
        options = {"alone": [], "batches": ["--max-batch", args.batch, "--batch-delay", args.delay]}
        for _ in range(args.rounds):
            for what in [*options, *(["onnxruntime"] if args.ort else [])]:
                if what in options: s = server.tenon(model, *options[what])
                else:
                    port = free_port()
                    s = server.Server([sys.executable, os.path.join(ROOT, "bench", "lib", "ort_server.py"), model, str(port), str(os.cpu_count())], port=port)
                ask = dict(header=f"Inference-Header-Content-Length: {len(head)}")
                server.load(s.port, "/v2/models/m/infer", body, connections=2, seconds=60, requests=4, **ask)
                before = s.cpu()
                r = server.load(s.port, "/v2/models/m/infer", body, connections=args.clients, seconds=args.seconds, **ask)
                front, engines = used(before, s.cpu(), s.process.pid)
                k = max(r["ok"], 1)
                print(f"{what:12} {r['per_second']:7.1f} requests/s, processor {1e3 * (front + engines) / k:.1f} ms a request (front {1e3 * front / k:.2f}), p50 {r['ok_ms']['p50']:.0f} p99 {r['ok_ms']['p99']:.0f} ms; {r['status']}", flush=True)
                s.stop()


# ---- a crowd ----
def metric(s, name):
    text = s.ask("GET", "/metrics")[1].decode()
    found = re.findall(rf'^{name}{{model="m"}} (\S+)$', text, re.M)
    return float(found[0]) if found else 0.0


class Watch(threading.Thread):
    """The most memory (PSS) that a server's processes had together, twice a second."""

    def __init__(self, s):
        super().__init__(daemon=True)
        self.server, self.most, self.front, self.stop = s, 0, 0, threading.Event()
        self.start()

    def run(self):
        while not self.stop.wait(0.5):
            pids = self.server.pids()
            sizes = [server.memory(p) for p in pids]
            if sum(sizes) > self.most: self.most, self.front = sum(sizes), sizes[0]


def crowd(args):
    server.allow_descriptors(args.connections + 300)
    with server.folder() as f:
        s = server.tenon("m=" + args.model, "--sequences", args.active, "--queue", args.active, "--context", args.context, "--threads", args.threads, "--connections", args.connections + 200, *args.option)
        asks = [json.dumps({"model": "m", "prompt": p, "max_tokens": args.tokens, "ignore_eos": True, "seed": 1, "stream": True}) for p in prompts(2000, args.words, 1)]
        body = server.write_body(f, "asks", "\n".join(asks))
        reserved, at_rest = json.loads(s.ask("GET", "/v1/models/m")[1])["memory_bytes"], sum(server.memory(p) for p in s.pids())
        watch = Watch(s)

        def measure(what, **options):
            before = s.cpu()
            r = server.load(s.port, "/v1/completions", body, "--lines", "--stream", **options)
            part = r["seconds"] / (r["seconds"] + options.get("warmup", 0))  # of the time that counts
            front, engine = (part * t for t in used(before, s.cpu(), s.process.pid))
            r["tokens"] = r["ok"] * args.tokens / r["seconds"]
            r["per_cpu"] = r["ok"] * args.tokens / max(engine, 0.01)
            refused = r.get("refused_ms", {})
            print(f"{what}: {r['ok']} answers, {r['tokens']:.0f} tokens/s, {r['per_cpu']:.0f} per processor second of the engine (front {front:.1f} s, engine {engine:.1f} s of {r['seconds']:.0f} s); {r['status']}, dropped {r['dropped']}, "
                  f"reset {r['reconnects']}, no connection {r['unable']}, errors {r['errors']}; 429 after p50 {refused.get('p50', 0):.1f} p99 {refused.get('p99', 0):.1f} max {refused.get('max', 0):.1f} ms; between tokens p99 {r.get('gap_ms', {}).get('p99', 0):.0f} ms", flush=True)
            return r

        alone = measure("capacity", connections=args.active, seconds=1.5 * args.seconds, warmup=0.5 * args.seconds)
        rate = max(alone["per_second"] * args.overload, 1)
        answer = args.active / max(alone["per_second"], 1)
        print(f"overload: {rate:.0f} requests/s on {args.connections} connections")
        busy = measure("overload", connections=args.connections, rate=rate, seconds=args.seconds + answer, warmup=answer, drop=args.drop, churn=args.churn, **{"drop-within": answer})
        print(f"goodput {100 * busy['per_cpu'] / alone['per_cpu']:.0f} % of the capacity by the engine's processor time, {100 * busy['tokens'] / alone['tokens']:.0f} % by the clock")
        end = time.time() + 30
        while metric(s, "tenon_engine_running") + metric(s, "tenon_queue_requests") > 0 and time.time() < end: time.sleep(0.1)
        watch.stop.set()
        pages, free, cached = (metric(s, "tenon_kv_pages" + n) for n in ("", "_free", "_cached"))
        print(f"pages: {free:.0f} free and {cached:.0f} cached of {pages:.0f}{'' if free + cached == pages else ', LOST'}")
        print(f"memory: {reserved / 2**20:.1f} MiB reserved, {at_rest / 2**20:.1f} at rest, {watch.most / 2**20:.1f} at most (front {watch.front / 2**20:.1f}): {(watch.most - reserved) / 2**20:+.1f} MiB beside what was reserved, 64 are allowed")
        s.stop()


# ---- a soak ----
def adapter(path, seed):
    """A LoRA adapter of the tiny model as PEFT saves one, of rank 4 for the query's product."""
    import tiny_llm
    rng, width = random.Random(seed), tiny_llm.HEADS * tiny_llm.HEAD
    os.makedirs(path)
    named = [(f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{n}.weight", shape, [rng.gauss(0, 0.5) for _ in range(shape[0] * shape[1])])
             for i in range(tiny_llm.LAYERS) for n, shape in (("A", [4, tiny_llm.HIDDEN]), ("B", [width, 4]))]
    tiny_llm.tensors(os.path.join(path, "adapter_model.safetensors"), named)
    with open(os.path.join(path, "adapter_config.json"), "w") as f: json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}, f)
    return path


def soak_asks(rng):
    """(key, path, body) of a request."""
    name = rng.choice(("one", "first", "second", "two", "mlp"))
    i = rng.randrange(8)
    if name == "mlp": return f"mlp {i}", "/v2/models/mlp/infer", {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [i, 1, 2, 3]}]}
    return f"{name} {i}", "/v1/completions", {"model": name, "prompt": f"Hello {i}", "max_tokens": 24, "seed": i}


def soak(args):
    sys.path.insert(0, os.path.join(ROOT, "tests", "system"))
    import tiny_llm
    with server.folder() as f:
        for name, kind in (("one", "llama"), ("two", "mamba2")): tiny_llm.make(os.path.join(f, name), seed=1, kind=kind)
        models = [f"one={f}/one", f"two={f}/two", "mlp=" + os.path.join(ROOT, "tests", "models", "mlp.onnx")]
        lora = [w for i, name in enumerate(("first", "second")) for w in ("--lora", f"{name}=one:" + adapter(os.path.join(f, name), i))]
        options = [*models, *lora, "--threads", 1, "--context", 128, "--max-batch", 8]
        for _ in range(2):  # an engine that compiles takes more than one that finds its kernels in the cache
            s = server.tenon(*options)
            sizes = [json.loads(s.ask("GET", "/v1/models/" + n)[1])["memory_bytes"] for n in ("one", "two")]
            sizes += [server.memory(p, "Rss") for p in server.children(s.process.pid) if "--engine=model" in open(f"/proc/{p}/cmdline").read()]
            s.stop()
        print("sizes:", *(f"{n / 2**20:.1f}" for n in sizes), "MiB", flush=True)
        s = server.tenon(*options, "--memory-budget", sum(sizes) - min(sizes) // 2)
        first, wrong, counts, lock, end = {}, [], {"answers": 0, "retries": 0}, threading.Lock(), time.time() + 60 * args.minutes

        def client(seed):
            rng = random.Random(seed)
            due = time.time()
            while time.time() < end:
                if args.rate:  # each client its part
                    due = max(due + args.clients / args.rate, time.time() - 1)
                    time.sleep(max(due - time.time(), 0))
                key, path, body = soak_asks(rng)
                status, text = s.ask("POST", path, body)
                if status == 200:
                    a = json.loads(text)
                    text = a["choices"][0]["text"] if "choices" in a else a["outputs"][0]["data"]
                with lock:
                    counts["answers"] += 1
                    if status != 200 or first.setdefault(key, text) != text: wrong.append((key, status, text))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(args.clients)]
        for t in threads: t.start()
        rows, began, loads = [], time.time(), set()
        while time.time() < end:
            time.sleep(min(1, 6 * args.minutes))
            loads.update(server.children(s.process.pid))
            rows.append((time.time() - began, server.memory(s.process.pid, "Rss"), server.memory(s.process.pid, "Anonymous"), server.descriptors(s.process.pid)))
            if len(rows) % 60 == 0: print(f"{rows[-1][0]:6.0f} s: {counts['answers']} answers, {len(loads)} engines so far, front {rows[-1][1] / 2**20:.2f} MiB resident, {rows[-1][2] / 2**20:.2f} anonymous, {rows[-1][3]} descriptors, {len(wrong)} wrong", flush=True)
        for t in threads: t.join()
        time.sleep(1)
        rows.append((time.time() - began, server.memory(s.process.pid, "Rss"), server.memory(s.process.pid, "Anonymous"), server.descriptors(s.process.pid)))
        warm = [r for r in rows if r[0] <= 6 * args.minutes] or rows[:1]
        base, fds = max(r[1] for r in warm), max(r[3] for r in warm)
        print(f"{counts['answers']} answers, {len(loads)} engines seen, {len(wrong)} wrong {wrong[:2]}; front: {(rows[-1][1] - base) / 2**20:+.2f} MiB resident since the first tenth ({base / 2**20:.2f}), "
              f"descriptors {rows[-1][3]} at the end, {fds} at most in the first tenth, {max(r[3] for r in rows)} at most")
        s.stop()
        if len(loads) < 3 * args.minutes: print("too few engines: models were not switched")
        return bool(wrong) or len(loads) < 3 * args.minutes or rows[-1][1] - base > 1 << 20 or rows[-1][3] > fds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    c = commands.add_parser("noop")
    c.add_argument("--connections", type=int, default=64)
    c.add_argument("--pipeline", type=int, default=1)
    c.add_argument("--seconds", type=float, default=5)
    c.add_argument("--rounds", type=int, default=3)
    c.add_argument("--option", action="append", default=[], help="of tenon serve, such as --option=--max-batch=64")
    c.set_defaults(run=noop)
    c = commands.add_parser("llm")
    c.add_argument("model")
    c.add_argument("--llama", help="folder of ../shared/tools/llamacpp.sh")
    for name, value in (("streams", 16), ("requests", 64), ("tokens", 64), ("words", 64), ("threads", 2), ("context", 512), ("rounds", 2)): c.add_argument("--" + name, type=int, default=value)
    c.add_argument("--temperature", type=float, default=1, help="with 0 small models repeat themselves, and Tenon's drafts are accepted (default 1)")
    c.add_argument("--option", action="append", default=[])
    c.set_defaults(run=llm)
    c = commands.add_parser("batching")
    c.add_argument("model", nargs="?", default=os.path.join(ROOT, "build", "nets", "resnet50.onnx"))
    for name, value in (("clients", 32), ("seconds", 10), ("batch", 8), ("delay", 20000), ("rounds", 2)): c.add_argument("--" + name, type=int, default=value)
    c.add_argument("--ort", action="store_true")
    c.set_defaults(run=batching)
    c = commands.add_parser("crowd")
    c.add_argument("model")
    for name, value in (("connections", 10000), ("active", 64), ("overload", 10), ("drop", 5), ("churn", 50), ("seconds", 60), ("tokens", 32), ("words", 32), ("threads", 1), ("context", 512)):
        c.add_argument("--" + name, type=int, default=value)
    c.add_argument("--option", action="append", default=[])
    c.set_defaults(run=crowd)
    c = commands.add_parser("soak")
    c.add_argument("--minutes", type=float, default=60)
    c.add_argument("--clients", type=int, default=4)
    c.add_argument("--rate", type=float, default=0, help="requests a second of all clients together; 0: as many as are answered")
    c.set_defaults(run=soak)
    args = p.parse_args()
    return args.run(args) or 0


sys.exit(main())
