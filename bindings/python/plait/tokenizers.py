"""Text to token ids and back, and conversations as text."""

import ctypes
import json

from plait import _abi, toml
from plait.errors import check, interrupts_behind, text_of
from plait.handles import Handle, encoded

_WRAP, _PLAIN, _STRICT = 1, 2, 0x10000  # PLAIT_ENCODE_*


class Tokenizer(Handle):
    """Engine.tokenizer() opens it. Any thread uses it, several at a time."""

    _close = "plait_tokenizer_close"

    def __init__(self, engine, of, name="tokenizer"):
        text = toml.document(of).encode()
        super().__init__("plait_tokenizer_open", engine.handle, text, len(text), encoded(name), parents=(engine,))
        self._is = str(of.get("type", ""))

    def describe(self):
        """{"type", "vocabulary" (number of ids), "specials", "fingerprint", ...}"""
        return self._json("plait_tokenizer_describe")

    def encode(self, text, wrap=False, plain=False, strict=False):
        """The ids of a text (str, or bytes). wrap: with the tokens that the tokenizer puts around one. plain: special tokens that it writes are
        ordinary text. strict: bytes that are not UTF-8 are an error."""
        if isinstance(text, str):
            raw = text.encode()
        elif isinstance(text, (bytes, bytearray, memoryview)):
            raw = bytes(text)
        else:
            raise TypeError(f"[python] the text is a {type(text).__name__}, expected str or bytes")
        return self._ids("plait_tokenizer_encode", raw, len(raw), wrap * _WRAP | plain * _PLAIN | strict * _STRICT)

    def encode_chat(self, template, messages, generate=False):
        """The ids of a conversation [{"role": "user", "text": "..."}], or "content" in place of "text"; generate: up to where the assistant's next turn begins."""
        return self._ids("plait_chat_encode", encoded(template), turns(messages), len(messages), bool(generate))

    def decode(self, ids, skip_special=False):
        """The text of ids; what is not UTF-8, as a part of a character, becomes U+FFFD."""
        return text_of("plait_tokenizer_decode", self._handle, id_array(ids), len(ids), bool(skip_special))

    def _ids(self, name, *arguments):
        made = ctypes.c_void_p()
        with interrupts_behind():
            check(getattr(_abi.lib, name)(self._handle, *arguments, ctypes.byref(made)))
            try:
                n = _abi.lib.plait_tokens_size(made)
                return list((ctypes.c_int32 * n).from_address(_abi.lib.plait_tokens_data(made))) if n else []
            finally:
                _abi.lib.plait_tokens_free(made)


def id_array(ids):
    """Ids as an array of C, which would take each modulo 2**32."""
    ids = [int(i) for i in ids]
    for i in ids:
        if not -2**31 <= i < 2**31:
            raise ValueError(f"[python] the id {i} does not fit into 32 bits")
    return (ctypes.c_int32 * len(ids))(*ids)


def turns(messages):
    """[{"role", "text"}], or with "content" as Hugging Face's conversations have it, as an array of C."""
    made = (_abi.ChatMessage * len(messages))()
    for i, m in enumerate(messages):
        role, text = (m.get("role"), m.get("text", m.get("content"))) if isinstance(m, dict) else (None, None)
        if not isinstance(role, str) or not isinstance(text, str):
            raise TypeError(f"[python] message {i} of the conversation is {m!r}, expected {{\"role\": \"user\", \"text\": \"...\"}}, or \"content\" in place "
                            "of \"text\"; both are str")
        raw = text.encode()
        made[i] = _abi.ChatMessage(role.encode(), raw, len(raw))
    return made


def chat_templates():
    """{name: what it is} of the chat templates that the library knows."""
    return {one["name"]: one["help"] for one in json.loads(text_of("plait_chat_templates"))}


def chat_text(template, messages, generate=False):
    """A conversation as the template writes it."""
    return text_of("plait_chat_render", encoded(template), turns(messages), len(messages), bool(generate))
