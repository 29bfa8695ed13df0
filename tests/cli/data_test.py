"""plait data: downloads with resume, checksum and a second mirror, from servers on this machine."""

import functools
import gzip
import http.server
import os
import pathlib
import re
import threading
import unittest

from support import Case, ROOT

FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
PLACES = (("mnist", ROOT / "data/mnist"), ("mnist", ROOT.parent / "shared/data/mnist"),
          ("fashion-mnist", pathlib.Path("/usr/share/datasets/fashion-mnist")))


def known_data():
    """A set of which the files are on this machine, and their folder; (None, None) where there is none."""
    return next(((name, folder) for name, folder in PLACES if all((folder / file).exists() for file in FILES)), (None, None))


SET, SOURCE = known_data()


class Server(http.server.BaseHTTPRequestHandler):
    """Serves a folder. With `ranges` it goes on in the middle of a file; `cut` breaks the first answer off after so many bytes."""

    def __init__(self, folder, ranges, state, *args):
        self.folder, self.ranges, self.state = folder, ranges, state
        super().__init__(*args)

    def do_GET(self):
        path = self.folder / self.path.lstrip("/")
        if not path.exists():
            return self.send_error(404)
        body, first = path.read_bytes(), 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        self.state["asked"].append((path.name, int(asked[1]) if asked else 0))
        if asked and self.ranges:
            first = int(asked[1])
            if first >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        cut = self.state["cut"].pop(path.name, None)
        self.wfile.write(body[first:] if cut is None else body[first:first + cut])
        self.close_connection = True

    def log_message(self, *args):
        pass


class Base(Case):
    def serve(self, folder, ranges=True, cut=None):
        """URL of a server, and what it was asked for."""
        state = {"asked": [], "cut": dict(cut or {})}
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, pathlib.Path(folder), ranges, state))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}", state["asked"]

    def environment(self):
        return {**super().environment(), "no_proxy": "127.0.0.1"}


@unittest.skipUnless(SET, "neither MNIST nor Fashion-MNIST is on this machine")
class Get(Base):
    def get(self, code, url, *words):
        froms = [word for one in ([url] if isinstance(url, str) else url) for word in ("--from", one)]
        return self.expect(code, "data", "get", SET, *froms, *words)

    def assert_complete(self, folder):
        for file in FILES:
            self.assertEqual((self.folder / folder / file).read_bytes(), (SOURCE / file).read_bytes())
        self.assertFalse(list((self.folder / folder).glob("*.part")))

    def test_from_a_folder(self):
        done = self.get(0, SOURCE.as_uri())
        self.assert_complete(f"data/{SET}")
        self.assertIn(f"--data data/{SET}", done.out)
        self.assertIn("already there", self.get(0, "file:///nowhere").out)  # nothing is fetched twice
        shown = [record for record in self.expect(0, "data", "show", "--json").records if record["set"] == SET][0]
        self.assertEqual((shown["present"], shown["files"]), (4, 4))

    def test_where_it_goes(self):
        for words, folder in ((["--to", "a/b"], "a/b"), (["--data", "."], SET)):
            self.get(0, SOURCE.as_uri(), *words)
            self.assert_complete(folder)

    def test_goes_on_where_it_stopped(self):
        url, asked = self.serve(SOURCE, cut={FILES[1]: 1000})
        self.get(3, url)  # breaks off in the second file
        part = self.folder / "data" / SET / (FILES[1] + ".part")
        self.assertEqual(part.stat().st_size, 1000)
        done = self.get(0, url)
        self.assertIn("resuming", done.err)
        self.assertIn((FILES[1], 1000), asked)
        self.assertEqual(sum(name == FILES[0] for name, _ in asked), 1)
        self.assert_complete(f"data/{SET}")

    def test_a_server_without_ranges_and_a_complete_part(self):
        for ranges, size in ((False, 1000), (True, None)):
            folder = self.folder / f"to-{ranges}"
            folder.mkdir()
            (folder / (FILES[3] + ".part")).write_bytes((SOURCE / FILES[3]).read_bytes()[:size])
            url, _ = self.serve(SOURCE, ranges=ranges)
            self.get(0, url, "--to", folder)
            self.assert_complete(folder)

    def test_a_bad_part_is_fetched_anew(self):
        url, _ = self.serve(SOURCE)
        folder = self.folder / "data" / SET
        folder.mkdir(parents=True)
        (folder / (FILES[3] + ".part")).write_bytes(b"x" * 100)
        self.get(0, url)
        self.assert_complete(f"data/{SET}")

    def test_a_wrong_file_is_refused_and_the_next_mirror_asked(self):
        bad = self.folder / "bad"
        bad.mkdir()
        for file in FILES:
            (bad / file).write_bytes((SOURCE / FILES[3]).read_bytes() if file != FILES[3] else b"junk")
        wrong, _ = self.serve(bad)
        said = self.get(3, wrong).err
        self.assertIn("bytes, expected", said)
        self.assertIn(wrong, said)
        self.assertFalse((self.folder / "data" / SET / FILES[0]).exists())
        self.get(0, [wrong, SOURCE.as_uri()])
        self.assert_complete(f"data/{SET}")

    def test_a_spoiled_file_in_place(self):
        self.get(0, SOURCE.as_uri())
        file = self.folder / "data" / SET / FILES[3]
        file.write_bytes(b"junk")
        self.assertIn("--yes", self.get(3, SOURCE.as_uri()).err)
        self.assertEqual(file.read_bytes(), b"junk")
        self.get(0, SOURCE.as_uri(), "--yes")
        self.assert_complete(f"data/{SET}")


class Shown(Base):
    def test_a_file_that_is_not_the_one(self):
        folder = self.folder / "data" / "tinyshakespeare"
        folder.mkdir(parents=True)
        self.assertRegex(self.expect(0, "data", "show").out, "tinyshakespeare +absent")
        for size, fault in ((100, "unpacks to 100 bytes, expected 1115394"), (1115394, "has sha256 ")):
            (folder / "input.txt").write_bytes(b"x" * size)
            self.assertRegex(self.expect(0, "data", "show").out, rf"tinyshakespeare +damaged[^!]*input.txt {fault}")
        packed = self.folder / "data" / "mnist"
        packed.mkdir()
        (packed / FILES[3]).write_bytes(gzip.compress(b"x" * 10008))
        (packed / FILES[2]).write_bytes(b"x")
        shown, = (record for record in self.expect(0, "data", "show", "--json").records if record["set"] == "mnist")
        self.assertEqual((shown["state"], shown["present"]), ("damaged", 0))


class Refused(Base):
    def test_no_server_and_no_file(self):
        url, _ = self.serve(self.folder)
        self.fails(3, ["data", "get", "mnist", "--from", url], "404", "check the network")
        self.fails(3, ["data", "get", "mnist", "--from", "http://127.0.0.1:1"], "127.0.0.1:1")
        self.fails(3, ["data", "get", "mnist", "--from", "ftp://127.0.0.1/"], "ftp")
        self.assertFalse((self.folder / "data/mnist").exists())  # nothing has come, so nothing is left

    @unittest.skipIf(os.geteuid() == 0 and not os.path.exists("/proc"), "needs a place that cannot be written")
    def test_no_place_to_write(self):
        self.fails(3, ["data", "get", "mnist", "--to", "/proc/nowhere"], "/proc/nowhere")


if __name__ == "__main__":
    unittest.main()
