"""The version of this package: told in a hello, so that two that do not understand each other can say so."""

VERSION = "0.1.0"
