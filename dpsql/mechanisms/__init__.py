"""Mechanisms by name: importing this package registers them all."""

from __future__ import annotations

from dpsql.mechanisms import barak as barak
from dpsql.mechanisms import direct as direct
from dpsql.mechanisms import dualquery as dualquery
from dpsql.mechanisms import fem as fem
from dpsql.mechanisms import hdmm as hdmm
from dpsql.mechanisms import ide as ide
from dpsql.mechanisms import lp as lp
from dpsql.mechanisms import mwem as mwem
from dpsql.mechanisms import pgm as pgm
from dpsql.mechanisms import pmwpub as pmwpub
from dpsql.mechanisms import projection as projection
from dpsql.mechanisms import rap as rap
