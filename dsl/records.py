"""`dataclass`, as in the standard library, made in a third of the time.

The standard library compiles up to six functions for a class, one by one, and asks for its
signature: 0.26 ms each, for the 150 classes of a first call as long as LLVM takes for a kernel.
Here the functions that depend on the fields (`__init__`, `__eq__`, `__hash__`) are compiled
together, and the others are shared by all classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, FrozenInstanceError, fields
    from reprlib import recursive_repr

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """`dataclasses.dataclass`, with those of its options that are used here."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, repr=repr)
        documentation = cls.__doc__
        if documentation is None:
            cls.__doc__ = cls.__name__  # or the standard library makes it, of the signature
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        cls.__doc__ = documentation
        names = {"_assign": object.__setattr__, "_MISSING": MISSING}
        text = _initialiser(cls, frozen, names)
        made = ["__init__"]
        if eq:
            made.append("__eq__")
            text += _equality(cls)
            if frozen:
                made.append("__hash__")
            elif "__hash__" not in cls.__dict__:
                cls.__hash__ = None
        exec(text, names)
        functions = {name: names[name] for name in made}
        if repr:
            functions["__repr__"] = _shown
        for name, function in functions.items():
            if name not in cls.__dict__ or (name == "__hash__" and cls.__hash__ is None):
                if function is not _shown:
                    function.__qualname__ = f"{cls.__qualname__}.{name}"
                    function.__module__ = cls.__module__
                setattr(cls, name, function)
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_to_assign, _refuse_to_delete
        return cls

    def _initialiser(cls, frozen, names):
        """The text of `__init__`; `names` receives what it refers to."""
        positional, by_name, body = [], [], []
        for field in fields(cls):
            name, value = field.name, field.name
            if field.default_factory is not MISSING:
                names[f"_make_{name}"] = field.default_factory
                made = f"_make_{name}()"
                value = f"{made} if {name} is _MISSING else {name}" if field.init else made
            elif not field.init:
                continue
            if field.init:
                parameter = name
                if field.default_factory is not MISSING:
                    parameter += "=_MISSING"
                elif field.default is not MISSING:
                    names[f"_default_{name}"] = field.default
                    parameter += f"=_default_{name}"
                (by_name if field.kw_only else positional).append(parameter)
            body.append(f"_assign(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        parameters = ", ".join(["self", *positional, *(["*", *by_name] if by_name else [])])
        return f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]) + "\n"

    def _equality(cls):
        """The text of `__eq__` and `__hash__`."""
        compared = [f for f in fields(cls) if f.compare]
        own, other = (
            "(" + "".join(f"{owner}.{f.name}, " for f in compared) + ")"
            for owner in ("self", "other")
        )
        hashed = "".join(
            f"self.{f.name}, " for f in fields(cls) if (f.compare if f.hash is None else f.hash)
        )
        return (
            "def __eq__(self, other):\n"
            " if other.__class__ is self.__class__:\n"
            f"  return {own} == {other}\n"
            " return NotImplemented\n"
            f"def __hash__(self):\n return hash(({hashed}))\n"
        )

    @recursive_repr()
    def _shown(self):
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _refuse_to_assign(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
