#!/usr/bin/env python3
"""page_test.py TENON [PICTURES] -- the chat page of `tenon serve` in Chromium: send, stream, stop, regenerate, errors, settings, dark, narrow.

PICTURES is a folder for screenshots, to be looked at.  The last line is `N passed, N failed`.
"""
import os, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chromium, openai_test
from openai_test import check


def until(b, expression, what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if b.js(expression): return True
        time.sleep(0.02)
    check(False, what, (b.js("document.body.innerText"), b.problems))


IDLE = "!running"
BOXES = "[...document.querySelectorAll('.turn')].map(t => t.className)"


def picture(b, name):
    if len(sys.argv) > 2:
        os.makedirs(sys.argv[2], exist_ok=True)
        b.picture(os.path.join(sys.argv[2], name + ".png"))


def write(b, text):
    b.js("document.getElementById('text').focus()")
    b.type(text)
    b.js("document.getElementById('text').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")


def talk(b):
    until(b, "document.getElementById('model').options.length == 2", "the list of models")
    check(b.js("[...document.getElementById('model').options].map(o => o.value)") == ["one", "two"], "models that generate, and no encoder")
    b.js("document.getElementById('seed').value = 3")
    b.js("document.getElementById('max_tokens').value = 60")
    write(b, "Hello <b>there</b>")
    until(b, IDLE, "an answer")
    check(b.js(BOXES) == ["turn user", "turn assistant"], "a message and its answer", b.js(BOXES))
    check(b.js("document.querySelector('.turn.user').textContent") == "Hello <b>there</b>" and not b.count(".turn b"), "text is no markup")
    note = b.js("document.querySelector('.meta').textContent")
    check("60 tokens" in note and "tokens/s" in note and "first after" in note, "token count and speed", note)
    first = b.js("turns.at(-1).content")
    picture(b, "answer")
    b.js("[...document.querySelectorAll('.link')].find(l => l.textContent == 'Regenerate').click()")
    until(b, IDLE, "another answer")
    check(b.js("turns.at(-1).content") == first and b.js(BOXES) == ["turn user", "turn assistant"], "regenerated with its seed", b.js(BOXES))
    b.js("document.getElementById('model').value = 'two'")
    b.js("regenerate()")
    until(b, IDLE, "an answer of the other model")
    check(b.js("turns.at(-1).content") != first, "the other model answers")
    b.js("document.getElementById('model').value = 'one'")
    b.js("(document.getElementById('max_tokens').value = '', document.getElementById('system').value = 'Be short.')")
    check(b.js("request('Be short.').messages[0]") == {"role": "system", "content": "Be short."}, "the system prompt")
    check(b.js("request('').seed") == 3 and b.js("'max_tokens' in request('')") is False, "settings")


def stop(b):
    b.js("document.getElementById('fresh').click()")
    b.js("(document.getElementById('text').value = 'Again', document.getElementById('send').click(), document.getElementById('stop').click())")
    until(b, IDLE, "it stops")
    check("stopped" in b.js("document.body.innerText"), "stopped", b.js("document.body.innerText"))
    check(b.js("[document.getElementById('send').hidden, document.getElementById('stop').hidden]") == [False, True], "the buttons")


def errors(b):
    b.js("document.getElementById('fresh').click()")
    write(b, "x" * 600)
    until(b, IDLE, "an error")
    check(b.count(".turn.error") == 1 and "context" in b.js("document.querySelector('.turn.error').textContent"), "the reason is shown", b.js("document.body.innerText"))
    picture(b, "error")
    write(b, "short")
    until(b, IDLE, "the next answer")
    check(b.js(BOXES) == ["turn user", "turn assistant"], "the next message is answered", b.js(BOXES))


def looks(b):
    for name, dark, width, height in (("light", False, 1200, 800), ("dark", True, 1200, 800), ("phone", False, 380, 720), ("phone_dark", True, 380, 720)):
        b.size(width, height)
        b.dark(dark)
        b.js(f"document.getElementById('settings').hidden = {str(name != 'phone_dark').lower()}")
        b.settle()
        back = b.js("getComputedStyle(document.body).backgroundColor")
        check((back == "rgb(22, 24, 28)") == dark, f"{name}: its colours", back)
        check(b.js("document.documentElement.scrollWidth <= innerWidth"), f"{name}: nothing is beyond the edge", b.js("document.documentElement.scrollWidth"))
        check(b.js("document.getElementById('send').getBoundingClientRect().right <= innerWidth"), f"{name}: the button is there")
        picture(b, name)
    b.js("document.getElementById('theme').click()")
    check(b.js("document.documentElement.dataset.theme") == "light", "the button switches")


def main():
    browser = chromium.find()
    if not browser:
        print("skipped: no Chromium here (apt install chromium)\n0 passed, 0 failed")
        return 0
    s = openai_test.Server(f"one={openai_test.model()}", f"two={openai_test.model(seed=2)}", f"bert={openai_test.model('bert')}").ready()
    with tempfile.TemporaryDirectory(prefix="page_test") as folder:
        b = chromium.Browser(browser, folder)
        b.visit(f"http://127.0.0.1:{s.port}/")
        for test in talk, stop, errors, looks: test(b)
        problems = [p for p in b.problems if "400" not in p and '"verbose"' not in p]
        check(not problems, "nothing on the console", problems)
        b.close()
    s.stop()
    print(f"{openai_test.passed} passed, {openai_test.failed} failed")
    return openai_test.failed > 0


if __name__ == "__main__": sys.exit(main())
