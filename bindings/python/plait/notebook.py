"""A progress bar for notebooks; in a terminal the library draws its own."""

import html
import sys
import time

_INTERVAL = 0.2  # seconds between two pictures


def in_notebook():
    """Whether this runs in a kernel of Jupyter, which shows HTML."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return bool(shell) and type(shell).__name__ == "ZMQInteractiveShell"


def duration(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Bar:
    """steps: of the whole run."""

    def __init__(self, steps):
        self.steps, self.started, self.drawn, self.first, self.shown, self.last = steps, time.monotonic(), 0.0, None, None, None

    def update(self, step):
        now, self.last = time.monotonic(), step
        self.first = self.first or (step.step - 1, step.samples)
        if now - self.drawn >= _INTERVAL:
            self.drawn = now
            self._draw(now)

    def end(self):
        if self.last:
            self._draw(time.monotonic())

    def text(self, now):
        """What stands behind the bar."""
        step, elapsed = self.last, now - self.started
        made = step.step - self.first[0]
        left = f", {duration(elapsed / made * (self.steps - step.step))} left" if made and step.step < self.steps else ""
        rate = f", {step.tokens_per_s:,.0f} tokens/s" if step.tokens_per_s else f", {step.samples_per_s:,.0f} samples/s" if step.samples_per_s else ""
        return f"step {step.step} of {self.steps}, loss {step.mean_loss or step.loss:.4g}{rate}, {duration(elapsed)}{left}"

    def _draw(self, now):
        from IPython.display import HTML, display
        picture = HTML(f'<progress value="{self.last.step}" max="{max(self.steps, 1)}" style="width: 20em"></progress> {html.escape(self.text(now))}')
        if self.shown is None:
            self.shown = display(picture, display_id=True)
        else:
            self.shown.update(picture)
