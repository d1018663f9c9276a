#!/usr/bin/env python3
"""openai_clients.py TENON -- `tenon serve` under the clients `openai` and `langchain-openai`, as their documents use them.

What is not installed is skipped and said so (pip install openai langchain-openai).  The last line is `N passed, N failed`.
"""
import asyncio, importlib.util, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import openai_test
from openai_test import check

MESSAGES = [{"role": "developer", "content": "Talk like a pirate."}, {"role": "user", "content": "Are semicolons optional in JavaScript?"}]


def openai_client(s):
    import openai
    from pydantic import BaseModel
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="any", max_retries=0)
    check([m.id for m in client.models.list()] == ["one", "two", "bert", "rank", "tools"], "models.list")
    check(client.models.retrieve("one").id == "one", "models.retrieve")
    whole = client.chat.completions.create(model="one", messages=MESSAGES, max_completion_tokens=20, seed=1, n=2)
    check(len(whole.choices) == 2 and whole.usage.completion_tokens <= 40 and whole.choices[0].message.role == "assistant", "chat", whole)
    text, usage = ["", ""], None
    for part in client.chat.completions.create(model="one", messages=MESSAGES, max_completion_tokens=20, seed=1, n=2, stream=True, stream_options={"include_usage": True}):
        for c in part.choices: text[c.index] += c.delta.content or ""
        usage = part.usage or usage
    check(text == [c.message.content for c in whole.choices] and usage == whole.usage, "a stream", (text, usage))
    with client.chat.completions.stream(model="one", messages=MESSAGES, max_completion_tokens=20, seed=1) as stream:
        got = "".join(e.delta for e in stream if e.type == "content.delta")
        check(got == text[0], "the stream helper", (got, text))
    logs = client.chat.completions.create(model="one", messages=MESSAGES, max_completion_tokens=5, logprobs=True, top_logprobs=3)
    check(all(len(t.top_logprobs) == 3 for t in logs.choices[0].logprobs.content), "logprobs", logs)
    check(isinstance(json.loads(client.chat.completions.create(model="one", messages=MESSAGES, max_completion_tokens=40, response_format={"type": "json_object"}).choices[0].message.content), dict), "JSON")
    done = client.completions.create(model="one", prompt=["Say", "this"], max_tokens=7, echo=True, logprobs=2)
    check(len(done.choices) == 2 and done.choices[0].text.startswith("Say"), "completions", done)
    vectors = client.embeddings.create(model="bert", input=["one", "two"])  # the client asks for base64
    check(len(vectors.data) == 2 and len(vectors.data[0].embedding) == openai_test.tiny_llm.HIDDEN and isinstance(vectors.data[0].embedding[0], float), "embeddings", vectors.usage)
    r = client.responses.create(model="one", instructions="Talk like a pirate.", input="Are semicolons optional?", max_output_tokens=20)
    check(isinstance(r.output_text, str) and r.usage.output_tokens <= 20, "responses", r)
    with client.responses.stream(model="one", input="Hello", max_output_tokens=20, extra_body={"seed": 1}) as stream:
        got = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    check(got == client.responses.create(model="one", input="Hello", max_output_tokens=20, extra_body={"seed": 1}).output_text, "a stream of responses", got)
    for wrong, kind in (({"model": "none"}, openai.NotFoundError), ({"temperature": 3}, openai.BadRequestError), ({"messages": []}, openai.BadRequestError)):
        try:
            client.chat.completions.create(**{"model": "one", "messages": MESSAGES, "max_tokens": 3, **wrong})
            check(False, f"{wrong} is an error")
        except kind as e: check(e.body["message"], "an error", e.body)

    async def together():
        c = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="any", max_retries=0)
        return await asyncio.gather(*(c.chat.completions.create(model="one", messages=MESSAGES, max_completion_tokens=20, seed=1) for _ in range(8)))
    check({a.choices[0].message.content for a in asyncio.run(together())} == {text[0]}, "async: the same answer eight times")

    class Event(BaseModel):
        name: str
        participants: list[str]
    try:
        got = client.chat.completions.parse(model="one", messages=MESSAGES, max_completion_tokens=200, seed=1, response_format=Event, logit_bias=SOON)
        check(isinstance(got.choices[0].message.parsed, Event), "parse", got)
    except openai.BadRequestError as e: check("schema" in str(e).lower(), "a schema is refused by name", e)


# The model is random: so its texts, lists and objects end soon.
SOON = {"34": 12, "93": 8, "125": 8}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Get current temperature for a given location.", "strict": True, "parameters": {
    "type": "object", "properties": {"location": {"type": "string", "description": "City and country e.g. Bogotá, Colombia"}}, "required": ["location"], "additionalProperties": False}}}
ASKED = [{"role": "user", "content": "What is the weather like in Paris today?"}]


def openai_tools(s):
    """Function calling, parse helpers and streams of calls, by the examples of OpenAI's documents."""
    import openai
    from pydantic import BaseModel
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="any", max_retries=0)
    limit = {"model": "tools", "max_completion_tokens": 300, "seed": 1, "logit_bias": SOON}
    first = client.chat.completions.create(messages=ASKED, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, **limit).choices[0]
    call = first.message.tool_calls[0]
    check(first.finish_reason == "tool_calls" and call.function.name == "get_weather" and set(json.loads(call.function.arguments)) == {"location"}, "function calling", first)
    then = [*ASKED, first.message, {"role": "tool", "tool_call_id": call.id, "content": "14"}]
    check(client.chat.completions.create(messages=then, tools=[WEATHER], **dict(limit, max_completion_tokens=8)).choices[0].message.role == "assistant", "its result")
    calls = {}
    for part in client.chat.completions.create(messages=ASKED, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, stream=True, **limit):
        for c in part.choices[0].delta.tool_calls or []:
            if c.index not in calls: calls[c.index] = c
            else: calls[c.index].function.arguments += c.function.arguments
    check((calls[0].function.name, calls[0].function.arguments) == (call.function.name, call.function.arguments), "a stream of calls", calls)
    with client.chat.completions.stream(messages=ASKED, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, **limit) as stream:
        kinds = [e.type for e in stream]
        check("tool_calls.function.arguments.done" in kinds and stream.get_final_completion().choices[0].message.tool_calls[0].function.name == "get_weather", "the stream helper", set(kinds))

    class GetWeather(BaseModel):
        location: str
        days: int
    parsed = client.chat.completions.parse(messages=ASKED, tools=[openai.pydantic_function_tool(GetWeather)], tool_choice="required", parallel_tool_calls=False, **limit)
    check(isinstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, GetWeather), "pydantic_function_tool", parsed)
    flat = {"type": "function", **WEATHER["function"]}
    r = client.responses.create(model="tools", input=ASKED, tools=[flat], tool_choice="required", parallel_tool_calls=False, max_output_tokens=300, extra_body={"seed": 1, "logit_bias": SOON})
    item = r.output[0]
    check(item.type == "function_call" and set(json.loads(item.arguments)) == {"location"}, "a response that calls", r)
    again = [*ASKED, item, {"type": "function_call_output", "call_id": item.call_id, "output": "14"}]
    check(client.responses.create(model="tools", input=again, tools=[flat], max_output_tokens=8).usage.output_tokens <= 8, "its result")
    with client.responses.stream(model="tools", input=ASKED, tools=[flat], tool_choice="required", parallel_tool_calls=False, max_output_tokens=300, extra_body={"seed": 1, "logit_bias": SOON}) as stream:
        check("response.function_call_arguments.done" in {e.type for e in stream} and stream.get_final_response().output[0].name == "get_weather", "a stream of responses with calls")

    class Event(BaseModel):
        name: str
        year: int
    got = client.responses.parse(model="tools", input=ASKED, text_format=Event, max_output_tokens=300, extra_body={"seed": 1, "logit_bias": SOON})
    check(isinstance(got.output_parsed, Event), "responses.parse", got)

    async def together():
        c = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="any", max_retries=0)
        text = ""
        async for part in await c.chat.completions.create(messages=ASKED, stream=True, **dict(limit, max_completion_tokens=20)): text += part.choices[0].delta.content or ""
        return text, await asyncio.gather(*(c.chat.completions.create(messages=ASKED, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, **limit) for _ in range(4)))
    text, answers = asyncio.run(together())
    check(text and {a.choices[0].message.tool_calls[0].function.arguments for a in answers} == {call.function.arguments}, "async", answers)


def langchain_tools(s):
    from langchain_openai import ChatOpenAI
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from pydantic import BaseModel, Field

    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply a and b."""
        return a * b

    class Joke(BaseModel):
        """Joke to tell user."""
        setup: str = Field(description="question to set up a joke")
        rating: int = Field(description="from 1 to 10")
    chat = ChatOpenAI(model="tools", max_tokens=300, seed=1, logit_bias=SOON, base_url=f"http://127.0.0.1:{s.port}/v1", api_key="any", max_retries=0)
    asked = [HumanMessage("What is 2 * 3?")]
    said = chat.bind_tools([multiply], tool_choice="any", parallel_tool_calls=False).invoke(asked)
    call = said.tool_calls[0]
    check(call["name"] == "multiply" and set(call["args"]) == {"a", "b"} and not said.invalid_tool_calls, "bind_tools", said)
    result = multiply.invoke(call)
    check(isinstance(result, ToolMessage), "a tool message", result)
    check(chat.bind_tools([multiply]).invoke([*asked, said, result], max_tokens=8) is not None, "its result")
    whole = None
    for part in chat.bind_tools([multiply], tool_choice="multiply").stream(asked): whole = part if whole is None else whole + part
    check(whole.tool_calls[0]["name"] == "multiply" and set(whole.tool_calls[0]["args"]) == {"a", "b"}, "a stream of calls", whole)
    for method in "json_schema", "function_calling":
        check(isinstance(chat.with_structured_output(Joke, method=method).invoke("Tell me a joke"), Joke), f"with_structured_output {method}")
    check(isinstance(chat.with_structured_output({"title": "J", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, method="json_mode").invoke("JSON"), dict), "json_mode")


def langchain_client(s):
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
    at = {"base_url": f"http://127.0.0.1:{s.port}/v1", "api_key": "any", "max_retries": 0}
    chat = ChatOpenAI(model="one", max_tokens=20, seed=1, **at)
    whole = chat.invoke([("system", "You translate."), ("human", "I love programming.")])
    check(whole.content and whole.usage_metadata["output_tokens"] <= 20, "invoke", whole)
    parts = list(chat.stream([("system", "You translate."), ("human", "I love programming.")]))
    check("".join(p.content for p in parts) == whole.content, "stream", parts[-1])
    check(len(chat.batch(["a", "b", "c"])) == 3, "batch")
    check(isinstance(OpenAI(model="one", max_tokens=9, **at).invoke("Hello"), str), "completions")
    e = OpenAIEmbeddings(model="bert", check_embedding_ctx_length=False, **at)
    check(len(e.embed_documents(["a", "b"])) == 2 and len(e.embed_query("a")) == openai_test.tiny_llm.HIDDEN, "embeddings")


def main():
    openai_test.tiny_llm.make(os.path.join(openai_test.FOLDER.name, "tools"), chat=openai_test.tiny_llm.TOOL_CHAT["hermes"], context=4096)
    s = openai_test.Server(*(f"{n}={openai_test.model(*m)}" for n, m in (("one", ()), ("two", ("llama", 2)), ("bert", ("bert",)), ("rank", ("rank",)))), f"tools={os.path.join(openai_test.FOLDER.name, 'tools')}").ready()
    for package, *tests in (("openai", openai_client, openai_tools), ("langchain_openai", langchain_client, langchain_tools)):
        if not importlib.util.find_spec(package): print(f"skipped: {package} is not installed")
        else:
            for test in tests: test(s)
    s.stop()
    print(f"{openai_test.passed} passed, {openai_test.failed} failed")
    return openai_test.failed > 0


if __name__ == "__main__": sys.exit(main())
