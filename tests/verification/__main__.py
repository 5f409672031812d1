"""``python -m tests.verification``: the table of checks from the last ``make verify``."""

from tests.verification.test_verification import CASES, FALSE_ALARM, FOLDER

if __name__ == "__main__":
    rows = [(FOLDER / f"{name}.md").read_text() for name in CASES if (FOLDER / f"{name}.md").exists()]
    print("| case | comparisons | p-value | gate |\n|---|---|---|---|\n" + "".join(rows))
    print(f"p-value: of the most surprising comparison, times their number. False alarms of the suite: at most {FALSE_ALARM:g}.")
    print(f"Figures: {FOLDER}")
