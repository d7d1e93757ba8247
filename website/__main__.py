"""`python -m website`: build the documentation site in build/docs/site, which opens from the disk."""

import sys
from pathlib import Path

from website.build import Failed, build

if __name__ == "__main__":
    try:
        print(f"open {build(Path('build/docs')) / 'index.html'}")
    except Failed as problem:
        sys.exit(str(problem))
