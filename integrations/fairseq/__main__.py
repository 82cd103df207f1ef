"""Prints the folder for fairseq's --user-dir."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.stdout.write(f"{Path(__file__).parent / 'plugin' / 'discorank_fairseq'}\n")
