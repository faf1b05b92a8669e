"""The command line where no script of it is on the path."""

import subprocess
import sys


def test_python_m_is_the_command_line() -> None:
    asked = [sys.executable, "-m", "barnabas"]
    told = subprocess.run([*asked, "topics", "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0
    assert told.stdout.startswith("usage: barnabas topics")
    wrong = subprocess.run([*asked, "nonsense"], capture_output=True, text=True, timeout=60, check=False)
    assert wrong.returncode == 2
