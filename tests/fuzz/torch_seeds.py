#!/usr/bin/env python3
"""torch_seeds.py FOLDER BYTES PLACE... -- seeds for the fuzz target torch: entries of the PyTorch archives below each PLACE that are
at most BYTES long, each behind the byte that tells the target what it is."""
import hashlib
import pathlib
import re
import sys
import zipfile

KINDS = ((0, ".py"), (1, ".pkl"), (2, ".json"))  # as torch.c takes the first byte, modulo 3


def main() -> None:
    folder, most = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    for place in map(pathlib.Path, sys.argv[3:]):
        for path in place.rglob("*.p*t*"):
            if not path.is_file() or not zipfile.is_zipfile(path):
                continue
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    kind = next((k for k, ending in KINDS if entry.filename.endswith(ending)), None)
                    if kind is None or not 0 < entry.file_size <= most:
                        continue
                    text = archive.read(entry)
                    if kind == 0:  # the target's archive has an object of the class M
                        text = re.sub(rb"class \w+\(", b"class M(", text, count=1)
                    seed = bytes([kind]) + text
                    (folder / f"seed-{hashlib.md5(seed).hexdigest()[:16]}").write_bytes(seed)


if __name__ == "__main__":
    main()
