"""llm_test.py -- tenon.LLM on a tiny model of random weights: beside the plain graph, in batches, streams and threads."""
import json, os, sys, tempfile, threading, unittest

import numpy as np

import tenon

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tiny_llm


class Embeddings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def open(self, kind, **options):
        llm = tenon.LLM(tiny_llm.make(os.path.join(self.folder.name, kind), kind=kind), threads=1, **options)
        self.addCleanup(llm.close)
        return llm

    def test_encoder(self):
        llm, texts = self.open("bert", requests=3), [f"text {i} " * (i + 1) for i in range(9)]
        self.assertEqual((llm.info["is_encoder"], llm.info["embedding"], llm.info["scores"]), (1, tiny_llm.HIDDEN, 0))
        found = llm.embed(texts)
        self.assertEqual(len(found), 9)
        self.assertEqual([llm.embed(t) for t in texts], found)
        self.assertEqual(llm.embed([llm.tokenize(t) for t in texts[:2]]), found[:2])
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
        hidden = np.asarray(tenon.compile(os.path.join(self.folder.name, "bert"), target="interp")(np.array(llm.tokenize("Hello"), np.int32)))
        for how, want in (("mean", hidden.mean(0)), ("first", hidden[0]), ("last", hidden[-1])):
            np.testing.assert_allclose(llm.embed("Hello", pooling=how, normalise=False), want, atol=1e-4)
        with self.assertRaises(tenon.InvalidError): llm.embed("Hello", pooling="max")
        with self.assertRaises(tenon.InvalidError): llm.embed("a" * 600)
        self.assertEqual(llm.embed("a" * 600, truncate=True), llm.embed("a" * 510))
        with self.assertRaises(tenon.TenonError): llm.generate("Hello")
        with self.assertRaises(tenon.TenonError): llm.rerank("Hello", ["a"])

    def test_rerank(self):
        llm = self.open("rank")
        found = llm.rerank("which day", ["one", "another", "one", "a third"])
        self.assertEqual(sorted(i for i, _ in found), [0, 1, 2, 3])
        self.assertEqual([s for _, s in found], sorted((s for _, s in found), reverse=True))
        self.assertEqual(dict(found)[0], dict(found)[2])

    def test_decoder(self):
        llm, plain = self.open("llama", embed=True, batch=64), self.open("llama")
        text = "Hello " * 30
        self.assertEqual(len(llm.embed([text, "a"])), 2)
        self.assertEqual(llm.generate(text, max_tokens=9), plain.generate(text, max_tokens=9))
        self.assertEqual(llm.embed(text), llm.embed([text, "a"])[0])
        with self.assertRaises(tenon.TenonError): plain.embed(text)


class Adapters(unittest.TestCase):
    def test_adapters(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_llm.make(os.path.join(folder, "tiny"))
            paths = [tiny_llm.adapter(os.path.join(folder, f"a{i}"), seed=i) for i in range(2)]
            llm = tenon.LLM(model, threads=1, adapters=2, adapter_rank=4, embed=True)
            self.addCleanup(llm.close)
            plain = llm.generate("Hello", max_tokens=12, ignore_end=True)
            with self.assertRaises(tenon.InvalidError): llm.generate("Hello", adapter="a0")
            for i, path in enumerate(paths): llm.load_adapter(f"a{i}", path)
            first, second = (llm.generate("Hello", max_tokens=12, ignore_end=True, adapter=f"a{i}") for i in range(2))
            self.assertEqual(len({tuple(x.tokens) for x in (plain, first, second)}), 3)
            self.assertEqual(llm.generate("Hello", max_tokens=12, ignore_end=True), plain)
            self.assertNotEqual(llm.embed("Hello"), llm.embed("Hello", adapter="a1"))
            with self.assertRaises(tenon.InvalidError): llm.load_adapter("a0", paths[1])
            with self.assertRaises(tenon.TenonError): llm.load_adapter("more", paths[1])
            llm.drop_adapter("a0")
            with self.assertRaises(tenon.InvalidError): llm.drop_adapter("a0")
            llm.load_adapter("a0", paths[1])
            self.assertEqual(llm.generate("Hello", max_tokens=12, ignore_end=True, adapter="a0"), second)
            self.assertGreater(llm.memory["adapters"], 0)


class LanguageModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = tiny_llm.make(os.path.join(cls.folder.name, "tiny"))
        cls.llm = tenon.LLM(cls.path, threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()
        cls.folder.cleanup()

    def test_beside_the_plain_graph(self):
        plain = tenon.compile(self.path, target="interp")
        tokens = [(7 * i * i + 3) % 256 for i in range(70)]
        found = self.llm.generate(tokens, max_tokens=8, ignore_end=True, logprobs=5, prompt_logprobs=True)
        ids = np.array(tokens + found.tokens, np.int32)
        logits = np.asarray(plain(ids), np.float64)
        want = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(1, keepdims=True)
        got = found.prompt_logprobs + found.logprobs
        np.testing.assert_allclose(got, [want[i, ids[i + 1]] for i in range(len(ids) - 1)], atol=2e-4)
        for i, top in enumerate(found.top_logprobs):
            self.assertEqual(top[0][0], found.tokens[i])
            row = want[len(tokens) - 1 + i]
            np.testing.assert_allclose([x for _, x in top], np.sort(row)[::-1][:5], atol=2e-4)

    def test_kv_types(self):
        text, want = "The quick brown fox " * 5, None
        for kv, most in (("f32", 0), ("f16", 0.02), ("bf16", 0.15)):
            with tenon.LLM(self.path, kv_dtype=kv, threads=1) as llm:
                found = np.array(llm.generate(text, max_tokens=0, prompt_logprobs=True).prompt_logprobs)
            want = found if want is None else want
            self.assertLessEqual(np.abs(found - want).max(), most, kv)
            self.assertEqual(bool((found != want).any()), most > 0, kv)

    def test_batches(self):
        prompts = [f"prompt {i} " * (i % 7 + 1) for i in range(20)] + [[1, 2, 3]]
        together = self.llm.generate(prompts, max_tokens=24)
        self.assertEqual(len(together), len(prompts))
        for i in (0, 6, 20): self.assertEqual(self.llm.generate(prompts[i], max_tokens=24), together[i])
        with tenon.LLM(self.path, requests=3, sequences=2, pages=4, threads=1) as small:
            self.assertEqual(small.generate(prompts, max_tokens=24), together)
            self.assertEqual(small.stats["waiting"], 0)

    def test_masks(self):
        pieces, ends = self.llm.pieces(), self.llm.ends()
        digits = [i for i, p in enumerate(pieces) if p.isdigit()]
        calls = []

        def mask(tokens, prompt, left):
            calls.append((len(tokens), prompt, left))
            return digits if left > 3 else ends

        found = self.llm.generate("Hello", max_tokens=13, mask=mask)
        self.assertEqual((len(found.tokens), found.finish_reason, found.text.isdigit()), (11, "stop", True))
        self.assertEqual(calls, [(calls[0][1] + i, calls[0][1], 13 - i) for i in range(11)])
        plain = self.llm.generate("Hello", max_tokens=13)
        self.assertEqual(self.llm.generate("Hello", max_tokens=13, mask=lambda *_: None), plain)
        self.assertEqual(self.llm.generate("Hello", max_tokens=13, mask=lambda *_: []).finish_reason, "no token")
        with self.assertRaises(ZeroDivisionError):
            self.llm.generate("Hello", max_tokens=13, mask=lambda tokens, *_: 1 // 0)
        with self.assertRaises(tenon.InvalidError):
            self.llm.generate("Hello", max_tokens=13, mask=lambda *_: [10**9])

    def test_forms(self):
        self.assertRegex(self.llm.generate("Hello", max_tokens=8, regex="[0-9]{3}x").text, "^[0-9]{3}x$")
        self.assertIn(self.llm.generate("Hello", max_tokens=8, choices=["yes", "no"]).text, ("yes", "no"))
        schema = {"type": "object", "properties": {"k": {"type": "boolean"}}, "required": ["k"], "additionalProperties": False}
        for given in schema, json.dumps(schema):
            found = json.loads(self.llm.generate("Hello", max_tokens=12, json_schema=given).text)
            self.assertIn(found, ({"k": True}, {"k": False}))
        text = "".join(p.text for p in self.llm.generate("Hello", max_tokens=9, grammar='root ::= "a" root "b" | "c"', stream=True))
        self.assertRegex(text, "^a*cb*$")
        with self.assertRaisesRegex(tenon.UnsupportedError, "lookahead"):
            self.llm.generate("Hello", regex="(?=a)")
        with self.assertRaisesRegex(tenon.InvalidError, "exclude"):
            self.llm.generate("Hello", regex="a", choices=["a"])
        with self.assertRaisesRegex(tenon.InvalidError, "empty"):
            self.llm.generate("Hello", choices=[])
        self.assertIn("{%", self.llm.chat_template)

    def test_streams(self):
        whole = self.llm.generate("Hello", max_tokens=40, ignore_end=True, temperature=1.0, seed=3)
        pieces = list(self.llm.generate("Hello", max_tokens=40, ignore_end=True, temperature=1.0, seed=3, stream=True))
        self.assertEqual("".join(p.text for p in pieces), whole.text)
        self.assertEqual([p.token for p in pieces], whole.tokens)
        self.assertEqual([p.finish_reason for p in pieces], [None] * 39 + ["length"])
        a, b = (self.llm.generate(p, max_tokens=30, ignore_end=True, stream=True) for p in ("one", "two"))
        mixed = [[], []]
        for x, y in zip(a, b): mixed[0].append(x.token), mixed[1].append(y.token)
        for p, tokens in zip(("one", "two"), mixed):
            self.assertEqual(self.llm.generate(p, max_tokens=30, ignore_end=True).tokens, tokens)

    def test_a_closed_stream_is_cancelled(self):
        before = self.llm.stats["cancelled"]
        stream = self.llm.generate("Hello", max_tokens=400, ignore_end=True, stream=True)
        next(stream)
        stream.close()
        self.llm.generate("x", max_tokens=2)
        self.assertEqual(self.llm.stats["cancelled"], before + 1)
        self.assertEqual(self.llm.stats["running"], 0)

    def test_a_stream_that_nobody_reads_is_cancelled(self):
        before = self.llm.stats["cancelled"]
        self.llm.generate("Hello", max_tokens=400, ignore_end=True, stream=True).close()
        self.llm.generate("Hello", max_tokens=400, ignore_end=True, stream=True)  # and one that is dropped
        self.llm.generate("x", max_tokens=2)
        self.assertEqual(self.llm.stats["cancelled"], before + 2)
        self.assertEqual(self.llm.stats["running"] + self.llm.stats["waiting"], 0)

    def test_closing_waits_for_the_step_of_a_thread(self):
        for _ in range(5):
            llm, seen, failures = tenon.LLM(self.path, threads=1), threading.Event(), []

            def work():
                try:
                    while True:  # a short answer may end before the model is closed
                        for _ in llm.generate("Hello", max_tokens=500, ignore_end=True, stream=True): seen.set()
                except tenon.InvalidError as error: failures.append(str(error))

            thread = threading.Thread(target=work)
            thread.start()
            seen.wait(60)
            llm.close()
            thread.join()
            self.assertEqual(failures, ["the model is closed"])

    def test_an_array_is_a_prompt(self):
        self.assertEqual(self.llm.generate(np.array([1, 2, 3]), max_tokens=4), self.llm.generate([1, 2, 3], max_tokens=4))

    def test_threads_share_a_model(self):
        prompts = [f"thread {i}" for i in range(6)]
        want = [self.llm.generate(p, max_tokens=30, ignore_end=True) for p in prompts]
        got = [None] * 6

        def work(i): got[i] = self.llm.generate(prompts[i], max_tokens=30, ignore_end=True)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
        self.assertEqual(got, want)

    def test_chat(self):
        messages = [{"role": "user", "content": "Hello"}]
        prompt = self.llm.chat_prompt(messages)
        self.assertEqual(prompt, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
        found = self.llm.chat(messages, max_tokens=10)
        self.assertEqual(found, self.llm.generate(prompt, max_tokens=10, parse_special=True, add_special=False))
        self.assertIn(tiny_llm.BYTES + 1, self.llm.tokenize(prompt, parse_special=True))
        self.assertNotIn(tiny_llm.BYTES + 1, self.llm.tokenize(prompt))

    def test_text(self):
        text = "Grüße, 世界 \U0001f600\n"
        self.assertEqual(self.llm.detokenize(self.llm.tokenize(text)), text)
        self.assertEqual(self.llm.tokenize(""), [])
        stop = self.llm.generate("Hello", max_tokens=60, ignore_end=True).text[8:10]
        self.assertEqual(self.llm.generate("Hello", max_tokens=60, ignore_end=True, stop=stop).finish_reason, "stop")

    def test_bias(self):
        self.assertEqual(self.llm.generate("Hello", max_tokens=5, bias={65: 100.0}).text, "AAAAA")

    def test_the_cache_is_used(self):
        before = self.llm.stats["cached_tokens"]
        text = "A sentence that nobody else begins with, long enough for a page or two. "
        first = self.llm.generate(text, max_tokens=5)
        self.assertEqual(self.llm.generate(text, max_tokens=5), first)
        self.assertGreaterEqual(self.llm.stats["cached_tokens"], before + 64)
        self.llm.generate(text, max_tokens=5, salt=1)
        self.assertLess(self.llm.stats["cached_tokens"], before + 128)

    def test_facts(self):
        self.assertEqual(self.llm.info["architecture"], "llama")
        self.assertEqual(self.llm.info["vocabulary"], tiny_llm.VOCAB)
        memory = self.llm.memory
        self.assertEqual(memory["total"], sum(v for k, v in memory.items() if k not in ("weights", "total")))

    def test_errors(self):
        for options in (dict(max_tokens=0), dict(max_tokens=1000), dict(temperature=-1.0), dict(top_p=0.0), dict(logprobs=21),
                        dict(stop=["x"] * 17), dict(bias={9999: 1.0}), dict(stop="")):
            with self.assertRaises(tenon.InvalidError, msg=str(options)): self.llm.generate("x", **options)
        for prompt in ("", [tiny_llm.VOCAB], [-1], [2**40], ["a", 1]):
            with self.assertRaises(tenon.InvalidError, msg=str(prompt)): self.llm.generate(prompt, max_tokens=2)
        with self.assertRaises(tenon.InvalidError): tenon.LLM(self.path, context=513)
        with self.assertRaises(tenon.InvalidError): tenon.LLM(self.path, kv_dtype="i8")
        with self.assertRaises(tenon.OutOfMemoryError): tenon.LLM(self.path, memory_limit=10000)
        with self.assertRaises(tenon.MissingFileError): tenon.LLM("/nowhere/model.gguf")
        closed = tenon.LLM(self.path, threads=1)
        closed.close()
        with self.assertRaises(tenon.InvalidError): closed.generate("x")
        self.assertEqual(self.llm.stats["running"] + self.llm.stats["waiting"], 0)
