"""What a test starts meets every signal with its default action, as in a terminal: nohup and a shell's & let a test ignore some, and its
children would inherit that."""

import signal


def use():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # this process does not end by it either; exec() restores the default
