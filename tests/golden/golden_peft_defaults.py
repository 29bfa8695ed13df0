"""What the library PEFT takes for a key that an adapter_config.json leaves out, for each method and key.

    python golden_peft_defaults.py [--check]        needs peft, beside requirements.txt

Writes peft_defaults.json: a list of cases. Each is the adapter_config.json of peft/ADAPTER without `key`, which then has `value` in the
library; `other` is another value of the key, with which the adapter is another one. With --check the cases are made again and compared.
"""

import json
import pathlib
import sys

from peft import PeftConfig

import case_file

HERE = pathlib.Path(__file__).parent
FILE = HERE / "peft_defaults.json"
CASES = {
    "llama_lora": {"r": 3, "lora_alpha": 5, "lora_dropout": 0.25, "use_rslora": True, "use_dora": True},
    "gpt2_lora": {"lora_alpha": 5},
    "llama_adalora": {"init_r": 5, "target_r": 1, "lora_alpha": 5, "lora_dropout": 0.25, "tinit": 1, "tfinal": 2, "deltaT": 3, "beta1": 0.5,
                      "beta2": 0.5, "orth_reg_weight": 0.125},
    "llama_vera": {"r": 5, "vera_dropout": 0.25},
}


def cases():
    found = []
    for adapter, others in CASES.items():
        for key, other in others.items():
            config = json.loads((HERE / "peft" / adapter / "adapter_config.json").read_text())
            config.pop("peft_version")
            config.pop(key, None)
            value = getattr(PeftConfig.from_peft_type(**config), key)
            found.append({"adapter": adapter, "key": key, "value": value, "other": other})
    return found


if __name__ == "__main__":
    sys.exit(case_file.main(FILE, cases, __doc__))
