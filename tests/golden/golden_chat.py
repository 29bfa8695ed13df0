#!/usr/bin/env python3
"""Writes chat.json beside this script: conversations as transformers' apply_chat_template has them.

    golden_chat.py [--check]

Needs transformers with jinja2, as requirements_chat.txt pins them. The templates below say what the models' own
tokenizer_config.json documents, without tools and images. With --check the texts are made again and compared.

chat.json: `conversations`, 30, each a list of [role, content]; `templates`, each a `name`, `texts`, a text for each
conversation or null where the template refuses it, and `prompts`, the same with the prompt for generation; null where the
last message is the assistant's; `ids`, with the tokenizer `tokenizer` of tokenizers.json and its own begin of a text.
"""

import argparse
import json
import pathlib
import random
import sys

import jinja2
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

FOLDER = pathlib.Path(__file__).resolve().parent
ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}")
SPLIT = ("{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}"
         "{% else %}{% set rest = messages %}{% set system = none %}{% endif %}")
# name: (begin, end, a tokenizer of tokenizers.json with its own begin, template)
TEMPLATES = {
    "chatml": ("", "<|im_end|>", None,
               "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
               "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
    "llama2": ("<s>", "</s>", ("llama2", "<s>"),
               SPLIT + "{% for message in rest %}" + ALTERNATE +
               "{% if loop.index0 == 0 and system is not none %}"
               "{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}"
               "{% else %}{% set content = message['content'] %}{% endif %}"
               "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
               "{% else %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>", ("llama3", "<|begin|>"),
               "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + "
               "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
               "{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"),
    "mistral": ("<s>", "</s>", None,
                SPLIT + "{{ bos_token }}{% for message in rest %}" + ALTERNATE +
                "{% if message['role'] == 'user' %}{% if loop.first and system is not none %}"
                "{{ ' [INST] ' + system + '\n\n' + message['content'] + ' [/INST]' }}"
                "{% else %}{{ ' [INST] ' + message['content'] + ' [/INST]' }}{% endif %}"
                "{% else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"),
    "gemma": ("<bos>", "<eos>", ("gemma", "<s>"),
              SPLIT + "{{ bos_token }}{% for message in rest %}" + ALTERNATE +
              "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
              "{{ '<start_of_turn>' + role + '\n' + (system + '\n\n' if loop.first and system is not none else '') }}"
              "{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"),
    "phi3": ("", "<|endoftext|>", None,
             "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"),
    "zephyr": ("<s>", "</s>", None,
               "{% for message in messages %}\n{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}\n"
               "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
    "tulu": ("", "<|end_of_text|>", None,
             "{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}"
             "{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}"
             "{% elif not loop.last %}{{ '<|assistant|>\n' + message['content'] + eos_token + '\n' }}"
             "{% else %}{{ '<|assistant|>\n' + message['content'] + eos_token }}{% endif %}"
             "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"),
}
PARTS = ("Hello", "what is 2 + 2?", "naïve café", "  indented\n", "\ttab", "two\n\nparagraphs", "日本語", "🙂", "end. ", "\u00a0wide\u2003",
         "a [INST] in it", "\x1fseparated\x1c", "x" * 40, "{end} of {begin}", "'quoted' \"text\"", "\u3000", "\r\n", "")


def conversations():
    random_ = random.Random(7)
    text = lambda: "".join(random_.choice(PARTS) for _ in range(random_.randint(1, 4)))
    made = []
    for i in range(30):
        turns = [["system", text()]] if i % 3 == 0 else []
        roles = ["user", "assistant"] * 3 if i < 24 else [random_.choice(("user", "assistant")) for _ in range(4)]
        made.append(turns + [[role, text()] for role in roles[:random_.randint(1, 6)]])
    return made


def render(template, begin, end, messages, generate):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(EMPTY)), bos_token=begin, eos_token=end)
    tokenizer.chat_template = template
    chat = [{"role": role, "content": content} for role, content in messages]
    if generate and messages[-1][0] == "assistant":
        return None
    try:
        return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=generate)
    except jinja2.exceptions.TemplateError:
        return None


EMPTY = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
         "post_processor": None, "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}


def make():
    chats = conversations()
    cases = {case["name"]: case for case in json.loads((FOLDER / "tokenizers.json").read_text())["cases"]}
    templates = []
    for name, (begin, end, tokenizer, template) in TEMPLATES.items():
        one = {"name": name, "texts": [render(template, begin, end, chat, False) for chat in chats],
               "prompts": [render(template, begin, end, chat, True) for chat in chats]}
        if tokenizer:
            library = Tokenizer.from_str(cases[tokenizer[0]]["text"])
            texts = [render(template, tokenizer[1], end, chat, False) for chat in chats]
            one["tokenizer"] = tokenizer[0]
            one["ids"] = [t and library.encode(t, add_special_tokens=False).ids for t in texts]
        templates.append(one)
    return {"conversations": chats, "templates": templates}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = make()
    if check:
        same = json.loads((FOLDER / "chat.json").read_text()) == made
        print("chat.json agrees with the library" if same else "chat.json DIFFERS")
        return 0 if same else 1
    (FOLDER / "chat.json").write_text(json.dumps(made, ensure_ascii=True, separators=(",", ":")).replace("],[[", "],\n[[") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
