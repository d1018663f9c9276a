"""chromium.py -- drives headless Chromium by its DevTools protocol over a pipe, for tests of pages, their pictures and their speed.

Needs only Python's standard library.  `find()` is None where no Chromium is installed.
"""
import base64, json, os, shutil, subprocess, time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The path of a Chromium on this machine, or None."""
    return next((p for p in map(shutil.which, PROGRAMS) if p), None)


class Browser:
    def __init__(self, program, folder):
        to_r, to_w = os.pipe()
        from_r, from_w = os.pipe()
        args = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--window-size=1400,900",
                "--user-data-dir=" + folder, "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{to_r} 4>&{from_w}', "bash", *args], pass_fds=(to_r, from_w),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_r)
        os.close(from_w)
        self.write, self.read = to_w, os.fdopen(from_r, "rb")
        self.buffer, self.number, self.session, self.problems = b"", 0, None, []
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"): self.call(domain + ".enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session: message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.receive()
            if reply.get("id") == self.number:
                if "error" in reply: raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            if reply.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.problems.append(json.dumps(reply["params"])[:600])

    def receive(self):
        while b"\0" not in self.buffer:
            more = self.read.read1(1 << 16)
            if not more: raise RuntimeError("the browser went away")
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def js(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r: raise RuntimeError(f"{expression}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def settle(self):
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def open(self, path, hash=""): self.visit("file://" + path + hash)

    def visit(self, url):
        self.problems.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        for _ in range(400):
            if self.js("document.readyState == 'complete' && location.protocol != 'about:'"): break
            time.sleep(0.05)
        self.settle()

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def click(self, selector):
        x, y = self.js(f"(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        self.settle()

    def count(self, selector): return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")
    def panel(self): return self.js("document.querySelector('#panel').textContent")

    def dark(self, on):
        """What the system is said to prefer."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.settle()

    def picture(self, path):
        with open(path, "wb") as f: f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        try: self.call("Browser.close")
        except (RuntimeError, OSError): pass
        try: self.process.wait(10)
        except subprocess.TimeoutExpired: self.process.kill()
