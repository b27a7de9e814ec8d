#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the licences of all that is bundled into an unpacked wheel: wheel_licences.py FOLDER.

Each library in checkmate.libs is looked up among Debian's packages. Their copyright files go to dist-info/licenses with the texts
that they refer to, and BUNDLED.txt says which package, version and source each library is of. The licence expression in METADATA
becomes that of the whole wheel. A library of a package that is not in the table below is an error: look up its licence, add it.
"""

import pathlib
import re
import shutil
import subprocess
import sys

#: Debian package: the licence of the library in it, and the texts of /usr/share/common-licenses that its copyright file refers to.
PACKAGES = {
    "coinor-libcbc3": ("EPL-1.0", ()),
    "coinor-libcgl1": ("EPL-1.0", ()),
    "coinor-libclp1": ("EPL-1.0", ()),
    "coinor-libcoinutils3v5": ("EPL-1.0", ()),
    "coinor-libosi1v5": ("EPL-1.0", ()),
    "libblas3": ("BSD-3-Clause", ()),
    "libbz2-1.0": ("bzip2-1.0.6", ()),
    "libgfortran5": ("GPL-3.0-or-later WITH GCC-exception-3.1", ("GPL-3",)),
    "libjansson4": ("MIT", ()),
    "liblapack3": ("BSD-3-Clause", ()),
    "libprotobuf-c1": ("BSD-2-Clause", ()),
    "libquadmath0": ("LGPL-2.1-or-later", ("LGPL-2.1",)),
}
#: checkmate, and what is packed into its library for `checkmate report`.
OWN_LICENCES = ("Apache-2.0", "MIT")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARE = pathlib.Path("/usr/share")

INTRODUCTION = """\
The libraries in checkmate.libs are not part of checkmate and have their own licences. Each is the file of a Debian package,
changed only in its name and in where it looks for the others (by auditwheel and patchelf). The packages' copyright files are
next to this one, with the texts that they refer to. Debian keeps the sources of every package under the names and versions below;
on Debian, `apt-get source SOURCE=VERSION` fetches them.

checkmate's library also has JavaScript inside, for the pages that `checkmate report` writes: see javascript.txt.

"""


def say(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def package_of(library: str) -> str:
    """The Debian package with a file of this name; auditwheel puts a part of a checksum into it: libz-1a2b3c4d.so.1."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)
    # Not those for other processors, which cross compilers bring. A place where there is none is said on standard error.
    places = [f"{folder}/{name}" for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/*")]
    lines = subprocess.run(["dpkg-query", "-S", *places], capture_output=True, text=True, check=False).stdout.splitlines()
    found = {line.split(":")[0] for line in lines if not line.startswith("diversion ")}
    if len(found) != 1:
        sys.exit(f"wheel_licences.py: {name} is of {'several Debian packages' if found else 'no Debian package'}: no licence to put in")
    return found.pop()


def main(wheel: pathlib.Path) -> None:
    (info,) = wheel.glob("*.dist-info")
    licences = info / "licenses"
    licences.mkdir(exist_ok=True)
    expressions = set(OWN_LICENCES)
    rows = [("library", "package", "source", "version", "licence")]
    for library in sorted(path.name for path in (wheel / "checkmate.libs").iterdir()):
        package = package_of(library)
        if package not in PACKAGES:
            sys.exit(f"wheel_licences.py: {library} is of {package}, whose licence is not in the table of this script: add it")
        expression, texts = PACKAGES[package]
        expressions.add(expression)
        shutil.copyfile(SHARE / "doc" / package / "copyright", licences / f"{package}.txt")
        for text in texts:
            shutil.copyfile(SHARE / "common-licenses" / text, licences / f"{text}.txt")
        source = say("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}\n", package).splitlines()[0].split()
        rows.append((library, package, source[0], source[1], expression))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    (licences / "BUNDLED.txt").write_text(INTRODUCTION + table + "\n")
    shutil.copyfile(ROOT / "src/emit/page/licences.txt", licences / "javascript.txt")
    shutil.copyfile(ROOT / "NOTICE", licences / "NOTICE")

    metadata = info / "METADATA"
    head, separator, body = metadata.read_text().partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith("License-File:")]
    if lines.count("License-Expression: Apache-2.0") != 1:
        sys.exit("wheel_licences.py: METADATA does not say once that checkmate's licence is Apache-2.0")
    at = lines.index("License-Expression: Apache-2.0")
    expressions.remove("Apache-2.0")
    lines[at : at + 1] = ["License-Expression: " + " AND ".join(["Apache-2.0", *sorted(expressions)])] + [
        f"License-File: {path.name}" for path in sorted(licences.iterdir())
    ]
    metadata.write_text("\n".join(lines) + separator + body)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: wheel_licences.py FOLDER")
    main(pathlib.Path(sys.argv[1]))
