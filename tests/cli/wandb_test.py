"""The file for Weights & Biases: read here by its format, and by the client's own messages where it is installed."""

import gzip
import http.server
import json
import os
import struct
import subprocess
import sys
import threading
import unittest
import zlib

from support import Case, TIME, TINY

BLOCK = 32768


def records(file):
    """Payloads of a LevelDB log, whose checksums are those of zlib."""
    data = file.read_bytes()
    assert data[:7] == struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
    at, parts = 7, []
    while at < len(data):
        rest = BLOCK - at % BLOCK
        if rest < 7:
            assert not any(data[at:at + rest])
            at += rest
            continue
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        part = data[at + 7:at + 7 + size]
        assert len(part) == size and zlib.crc32(part, zlib.crc32(bytes([kind]))) == crc
        at += 7 + size
        parts.append(part)
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []


def fields(message):
    """(number, value) of a protobuf message whose fields are numbers and bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = message[at:at + value], at + value
        yield tag >> 3, value


def items(message, key):
    found = [dict(fields(item)) for number, item in fields(message) if number == 1]
    return {item[key].decode(): json.loads(item[16]) for item in found}


def rows_of(sent):
    """The lines of the history in a part of an upload."""
    return sent.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])


class Server(http.server.BaseHTTPRequestHandler):
    """As much of the service as an upload needs; it keeps what it is sent."""

    def log_message(self, *_):
        pass

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def reply(self, value):
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.reply({})

    def do_PUT(self):
        self.body()
        self.reply({})

    def do_POST(self):
        sent = json.loads(self.body())
        if "graphql" not in self.path:
            self.server.streams.append((self.path, sent))
            self.server.rows += len(rows_of(sent))
            return self.reply({"exitcode": None, "limits": {}})
        query, values = sent["query"], sent.get("variables") or {}
        if "upsertBucket" in query:
            self.server.runs.append(values)
            project = {"id": "p", "name": values["project"], "entity": {"id": "e", "name": values["entity"]}}
            bucket = {"id": "r", "name": values["name"], "displayName": values["displayName"], "description": "", "config": "{}",
                      "sweepName": None, "historyLineCount": self.server.rows, "project": project}
            return self.reply({"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}})
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.server.url}/put"} for name in values["files"]]
            return self.reply({"data": {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}})
        if "RunResumeStatus" in query and self.server.rows:
            bucket = {"id": "r", "name": values["name"], "summaryMetrics": "{}", "displayName": "", "logLineCount": 0, "eventsLineCount": 0,
                      "historyLineCount": self.server.rows, "historyTail": "[]", "eventsTail": "[]", "config": "{}", "tags": [], "notes": "",
                      "wandbConfig": "{}"}
            return self.reply({"data": {"model": {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}, "bucket": bucket}}})
        versions = {"cliVersionInfo": {"max_cli_version": "99.0.0"}, "latestLocalVersionInfo": None, "features": []}
        viewer = {"id": "u", "entity": "team", "username": "u", "flags": "{}", "teams": {"edges": []}}
        self.reply({"data": {"serverInfo": versions, "viewer": viewer, "model": None, "project": None, "entity": None}})


def client():
    """A Python that has the package wandb: $PLAIT_WANDB_PYTHON, else this one."""
    python = os.environ.get("PLAIT_WANDB_PYTHON", sys.executable)
    command = [python, "-c", "from wandb.proto import wandb_internal_pb2"]
    return python if subprocess.run(command, capture_output=True).returncode == 0 else None


CLIENT = client()
needs_client = unittest.skipUnless(CLIENT, "needs the package wandb; PLAIT_WANDB_PYTHON names a Python that has it")


class Wandb(Case):
    def run_of(self, *words):
        self.write("t.toml", TINY + '[wandb]\nwrite = true\nentity = "team"\ngroup = "sweep 1"\n')
        self.expect(0, "run", "t.toml", "evaluate.every=10", "--run-dir", "r", "-q", *words)
        return sorted((self.folder / "r/wandb").glob("offline-run-*/run-*.wandb"))

    def test_rows_settings_and_end(self):
        file, = self.run_of()
        name = file.parent.name
        self.assertRegex(name, r"^offline-run-\d{8}_\d{6}-[a-z0-9]{8}$")
        self.assertEqual(file.name, f"run-{name[-8:]}.wandb")
        all_ = [dict(fields(record)) for record in records(file)]
        self.assertEqual([record[1] for record in all_], list(range(1, len(all_) + 1)))
        run = dict(fields(all_[1][17]))
        self.assertEqual((run[1], run[2], run[3], run[6]), (name[-8:].encode(), b"team", b"tiny", b"sweep 1"))
        settings = items(run[4], 1)
        self.assertEqual((settings["model.optimizer.learning_rate"], settings["model.optimizer.type"]), (0.01, "adamw"))
        self.assertEqual(dict(fields(all_[-1][18])).get(1, 0), 0)
        rows = [items(record[2], 2) for record in all_ if 2 in record]
        lines = [json.loads(line) for line in (self.folder / "r/metrics.ndjson").read_text().splitlines()]
        steps = [line for line in lines if "event" not in line]
        self.assertEqual([row["_step"] for row in rows], [line["step"] for line in steps])
        self.assertEqual([row["train/loss"] for row in rows], [line["loss"] for line in steps])
        evaluated = {line["step"]: line["accuracy"] for line in lines if line.get("event") == "evaluate"}
        self.assertEqual({row["_step"]: row["eval/accuracy"] for row in rows if "eval/accuracy" in row}, evaluated)
        summary = {}
        for record in all_:
            if 3 in record:
                summary.update(items(record[3], 2))
        self.assertEqual((summary["_step"], summary["train/loss"]), (40, steps[-1]["loss"]))

    def test_off_unless_wanted_and_continued(self):
        self.write("plain.toml", TINY)
        self.expect(0, "run", "plain.toml", "--run-dir", "plain", "-q")
        self.assertFalse((self.folder / "plain/wandb").exists())
        self.run_of()
        self.expect(0, "run", "t.toml", "run.steps=50", "--run-dir", "r", "--resume", "must", "-q", "wandb.project=other")
        first, second = sorted((self.folder / "r/wandb").glob("offline-run-*/run-*.wandb"), key=os.path.getmtime)
        self.assertEqual(first.name, second.name)
        rows = [items(dict(fields(record))[2], 2) for record in records(second) if 2 in dict(fields(record))]
        self.assertEqual([row["_step"] for row in rows], list(range(41, 51)))
        run = dict(fields(list(records(second))[1]))
        self.assertEqual(dict(fields(run[17]))[3], b"other")

    @needs_client
    def test_messages_of_the_client(self):
        file, = self.run_of()
        # Every record is what the client's own messages make of it, byte for byte. Its DataStore reads the file where it is still
        # part of the package.
        script = """
import json, sys, wandb
from wandb.proto import wandb_internal_pb2 as proto
payloads = [bytes.fromhex(line) for line in sys.stdin]
try:
    wandb._assert_is_internal_process = True
    from wandb.sdk.internal.datastore import DataStore
    store = DataStore()
    store.open_for_scan(sys.argv[1])
    assert list(iter(store.scan_data, None)) == payloads
except ImportError:
    pass
kinds = []
for payload in payloads:
    record = proto.Record.FromString(payload)
    assert record.SerializeToString() == payload, record
    kinds.append(record.WhichOneof("record_type"))
print(json.dumps(kinds))
"""
        text = "".join(record.hex() + "\n" for record in records(file))
        done = subprocess.run([CLIENT, "-c", script, str(file)], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), ["header", "run"] + ["summary", "history"] * 40 + ["exit"])

    @needs_client
    def test_sync(self):
        """The client uploads every row, the settings and the end; of a run that was resumed as one."""
        first, = self.run_of("wandb.project=digits")
        self.expect(0, "run", "t.toml", "run.steps=50", "--run-dir", "r", "--resume", "must", "-q", "wandb.project=digits")
        files = sorted(self.folder.glob("r/wandb/offline-run-*/run-*.wandb"))
        self.assertEqual((len(files), files[0]), (2, first))
        options = subprocess.run([CLIENT, "-m", "wandb", "sync", "--help"], capture_output=True, text=True, timeout=TIME).stdout
        if "--append" in options:
            files = [first]  # an old client, which writes a second part over the first
        rows = [items(record[2], 2) for file in files for record in (dict(fields(record)) for record in records(file)) if 2 in record]
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
            server.url = f"http://127.0.0.1:{server.server_port}"
            server.runs, server.streams, server.rows = [], [], 0
            threading.Thread(target=server.serve_forever, daemon=True).start()
            command = [CLIENT, "-m", "wandb", "sync", *(str(file.parent) for file in files)]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=TIME,
                                  env={**os.environ, "HOME": str(self.folder), "WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0" * 40,
                                       "WANDB_ERROR_REPORTING": "false", "no_proxy": "*"})
            server.shutdown()
        self.assertEqual(done.returncode, 0, done.stderr)
        id_ = first.parent.name[-8:]
        run = server.runs[0]
        self.assertEqual((run["name"], run["project"], run["entity"], run["groupName"], run["displayName"]), (id_, "digits", "team", "sweep 1", "r"))
        self.assertEqual(json.loads(run["config"])["model.optimizer.learning_rate"]["value"], 0.01)
        self.assertEqual({path for path, _ in server.streams}, {f"/files/team/digits/{id_}/file_stream"})
        history = {}
        for _, sent in server.streams:
            offset = sent.get("files", {}).get("wandb-history.jsonl", {}).get("offset")
            history.update((offset + i, json.loads(line)) for i, line in enumerate(rows_of(sent)))
        # Each row at its place: the client counts the time of the second part from where the first one ended.
        self.assertEqual(sorted(history), list(range(len(rows))))
        for at, row in enumerate(rows):
            sent = {name: value for name, value in history[at].items() if name != "_runtime"}
            self.assertEqual(sent, {name: value for name, value in row.items() if name != "_runtime"})
        self.assertEqual([sent["exitcode"] for _, sent in server.streams if sent.get("complete")], [0] * len(files))


if __name__ == "__main__":
    unittest.main()
