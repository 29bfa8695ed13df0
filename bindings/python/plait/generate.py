"""Generation: token after token from a session whose experiment has generate.slots above 0."""

import ctypes
import dataclasses

from plait import _abi
from plait.errors import call
from plait.handles import Handle, encoded, texts
from plait.tokenizers import id_array, turns

_FINISH = (None, "end", "stop", "length", "cancelled", "failed")  # of PLAIT_FINISH_*


@dataclasses.dataclass(frozen=True)
class Token:
    """A token that was drawn."""

    sequence: int
    index: int  # from 0, behind the prompt
    id: int  # -1: none, the sequence was cancelled or failed
    text: str  # that it completed
    finish: str  # None, "end", "stop", "length", "cancelled", "failed"
    log_probability: float  # NaN: not asked for
    best: list  # [(id, log-probability)], as many as asked for


class Generator(Handle):
    """Sequences that wait for a slot, and their tokens. Session.generator() opens it; a session has one at a time."""

    _close = "plait_generator_close"

    def __init__(self, session, tokenizer=None):
        options = _abi.sized(_abi.GeneratorOptions, tokenizer=tokenizer.handle if tokenizer else None)
        super().__init__("plait_generator_open", session.handle, ctypes.byref(options), parents=(session, tokenizer))
        self._session, self._made = session, []  # tokens that an error or Ctrl-C has kept from the caller

    def add(self, prompt, max_tokens=0, min_tokens=0, stop=None, end_ids=None, plain=False, log_probabilities=False, best=0, adapter=None,
            chat_template=None, **sampling):
        """Adds a sequence and returns its number.

        prompt: a text, a list of ids, or a conversation [{"role": "user", "text": "..."}] (or "content"). sampling: temperature (1 beside others, 0: the most
        likely token), top_p, min_p, top_k, repetition_penalty, seed; without any all are as [generate] says.
        """
        p = _abi.sized(_abi.Prompt, max_tokens=max_tokens, min_tokens=min_tokens, plain=plain, log_probabilities=log_probabilities, best=best,
                       adapter=encoded(adapter), chat_template=encoded(chat_template))
        if isinstance(prompt, str):
            p.text = prompt.encode()
            p.size = len(prompt.encode())
        elif not hasattr(prompt, "__len__") or isinstance(prompt, (bytes, dict)):
            raise TypeError(f"[python] the prompt is a {type(prompt).__name__}, expected a text (str), a list of ids or a conversation, a list of dicts")
        elif len(prompt) and isinstance(prompt[0], dict):
            p.messages, p.n_messages = turns(prompt), len(prompt)
        else:
            p.ids, p.n_ids = id_array(prompt), len(prompt)
        if stop is not None:
            words = texts(stop) or (ctypes.c_char_p * 1)()  # none, also where [generate] has some
            p.stop, p.n_stop = words, len(words) if stop else 0
        if end_ids is not None:
            p.end_ids, p.n_end_ids = id_array(end_ids) if len(end_ids) else (ctypes.c_int32 * 1)(), len(end_ids)
        if sampling:
            p.sampling = ctypes.pointer(_abi.sized(_abi.Sampling, **{"temperature": 1.0, **sampling}))
        number = ctypes.c_uint64()
        self._session._do(lambda: call("plait_generator_add", self._handle, ctypes.byref(p), ctypes.byref(number)))
        return number.value

    def step(self):
        """(the tokens of one step, of each sequence that has a slot; how many sequences are not finished)"""
        @_abi.TokenCallback
        def on_token(_, token):
            t = token.contents
            best = [(t.best_ids[i], t.best_log_probabilities[i]) for i in range(t.n_best)]
            text = ctypes.string_at(t.text, t.size).decode(errors="replace")
            self._made.append(Token(t.sequence, t.index, t.id, text, _FINISH[t.finish], t.log_probability, best))
            return 0

        left = ctypes.c_uint64()
        self._session._do(lambda: call("plait_generator_step", self._handle, ctypes.cast(on_token, ctypes.c_void_p), None, ctypes.byref(left)))
        made, self._made = self._made, []
        return made, left.value

    def tokens(self):
        """All tokens of all sequences, as they are drawn."""
        left = 1
        while left:
            made, left = self.step()
            yield from made

    def cancel(self, sequence):
        """Ends a sequence that add() has numbered; its last token comes in the next step, with finish "cancelled"."""
        self._session._do(lambda: call("plait_generator_cancel", self._handle, sequence))

    def text(self, prompt, **options):
        """The text behind a prompt; options as of add()."""
        number = self.add(prompt, **options)
        return "".join(token.text for token in self.tokens() if token.sequence == number)
