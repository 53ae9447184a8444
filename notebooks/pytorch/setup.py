"""Packs the modules with the library, which cargo builds: pip install ./notebooks/pytorch

WARPBOOK_OP names a library that is built already, as on a machine without Rust.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[2]


class WithLibrary(build_py):
    def run(self):
        super().run()
        # The module knows the library's path and its name on this system.
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        import warpbook_op

        if not os.environ.get(warpbook_op.VARIABLE):
            subprocess.run(warpbook_op.BUILD.split(), cwd=ROOT, check=True)
        built = warpbook_op.library_file()
        shutil.copy(built, Path(self.build_lib) / warpbook_op.library_name())


class OfThisSystem(Distribution):
    def has_ext_modules(self):
        """The wheel is for this system only, because it contains the library."""
        return True


setup(cmdclass={"build_py": WithLibrary}, distclass=OfThisSystem)
