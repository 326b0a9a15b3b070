"""Which CPU a guest of this host gets, and so which features it can count on: HW_CPU_* traits.

    host-model, host-passthrough   the host's features
    custom                         those of each model of ``cpu_models`` together
    none                           those of QEMU's default model

and ``cpu_model_extra_flags`` on top of each.  Models are names; libvirt writes their
features out (:class:`Question`).  Traits of features: :mod:`drivers.libvirt.facts.cpu_traits`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.libvirt.connection.events import CONNECTION
from drivers.libvirt.documents import checked, read
from drivers.libvirt.facts.cpu_traits import Features, cpu_traits
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.facts.topology import HostCpu, features, host_cpu, hyperthreading
from drivers.libvirt.tree.reported import HostReport

AARCH64 = "aarch64"
HOST_MODES = frozenset({"host-model", "host-passthrough"})

_DEFAULT_MODELS = {"i686": "qemu32", "ppc64le": "POWER8", AARCH64: "max"}
_WITH_CPU_MODELS = frozenset({"kvm", "qemu"})


@dataclass(frozen=True, slots=True)
class CpuChoice:
    """The operator's choice, as configured; ``mode`` ``None``: by virt_type."""

    virt_type: str = "kvm"
    mode: str | None = None
    models: tuple[str, ...] = ()
    extra_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A <cpu> document whose features libvirt shall write out, and its name for people."""

    document: str
    name: str


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """What guests can count on."""

    choice: CpuChoice
    name: ClassVar[str] = "CPU features"

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """:raises ValueError: a mode and models that do not go together."""
        group = context.conf.libvirt
        if group.cpu_models and group.cpu_mode != "custom":
            raise ValueError("[libvirt] cpu_models is only for [libvirt] cpu_mode = custom")
        if group.cpu_mode == "custom" and not group.cpu_models:
            raise ValueError("[libvirt] cpu_mode = custom needs [libvirt] cpu_models")
        models, flags = tuple(group.cpu_models), tuple(group.cpu_model_extra_flags)
        return cls(CpuChoice(group.virt_type, group.cpu_mode, models, flags))

    def ask(self, sources: Sources) -> Features | None:
        """Libvirt's own gaps leave features out."""
        cpu = host_cpu(sources.capabilities)
        known = cpu_models(sources, cpu.arch) if self.choice.models and cpu.arch else ()
        asked = questions(cpu, self.choice, known)
        answers = [expanded_cpu(sources, one) for one in asked]
        return guest_features(cpu, self.choice, asked, answers)

    def judge(self, answer: Features | None, of: Subject) -> HostReport:
        """Of the host's kind of CPU."""
        threads = hyperthreading(of.capabilities)
        return HostReport(traits=cpu_traits(host_cpu(of.capabilities), answer, threads))


def expanded_cpu(sources: Sources, one: Question) -> str | None:
    """A <cpu> document with all features of its model written out."""
    flag = sources.host.binding.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    return sources.ask(
        f"the features of {one.name}",
        lambda c: checked(str(c.baselineCPU([one.document], flag)), "cpu"),
        until=CONNECTION,
    )


def cpu_models(sources: Sources, arch: str) -> tuple[str, ...]:
    """Names of the CPU models that libvirt has for an architecture."""
    names = sources.ask(
        f"CPU models of {arch}",
        lambda c: tuple(map(str, c.getCPUModelNames(arch))),
        until=CONNECTION,
    )
    return names or ()


def mode_of(choice: CpuChoice, arch: str | None) -> str | None:
    """The mode that holds; ``None``: guests of this virt_type have no CPU model."""
    if choice.virt_type not in _WITH_CPU_MODELS:
        return None if choice.mode == "none" else choice.mode
    if choice.mode is None:
        return "host-passthrough" if arch == AARCH64 else "host-model"
    return choice.mode


def questions(
    cpu: HostCpu, choice: CpuChoice, known_models: Iterable[str] = ()
) -> tuple[Question, ...]:
    """What libvirt has to write out.  ``known_models`` put names into libvirt's case."""
    mode = mode_of(choice, cpu.arch)
    if mode in HOST_MODES:
        # Hosts whose model libvirt does not know (all of ARM) list all that there is.
        told = cpu.arch == AARCH64 or cpu.model is None
        return () if told else (Question(cpu.document, "the host's CPU"),)
    if mode is None or cpu.arch is None:
        return ()
    spelling = {name.lower(): name for name in known_models}
    models = choice.models if mode == "custom" else ()
    return tuple(
        _question(cpu.arch, spelling.get(model.lower(), model))
        for model in models or (_DEFAULT_MODELS.get(cpu.arch, "qemu64"),)
    )


def guest_features(
    cpu: HostCpu, choice: CpuChoice, asked: Sequence[Question], answers: Sequence[str | None]
) -> Features | None:
    """What guests can count on; ``None``: nothing can be said of this virt_type or host.

    ``answers`` belong to ``asked``; ``None`` is a question without an answer.
    """
    mode = mode_of(choice, cpu.arch)
    if mode is None or cpu.arch is None:
        return None
    written = [read(answer) for answer in answers if answer]
    names = frozenset().union(*map(features, written))
    if mode in HOST_MODES:
        names |= cpu.features
    complete = len(written) == len(asked) and bool(names)
    return Features(_with_flags(names, choice.extra_flags), complete)


def _question(arch: str, model: str) -> Question:
    cpu = Element("cpu")
    ET.SubElement(cpu, "arch").text = arch
    ET.SubElement(cpu, "model").text = model
    return Question(ET.tostring(cpu, encoding="unicode"), f"CPU model {model}")


def _with_flags(names: frozenset[str], flags: Iterable[str]) -> frozenset[str]:
    """``flag`` and ``+flag`` add, ``-flag`` takes away; case does not matter."""
    cleaned = [flag.strip().lower() for flag in flags]
    removed = {flag[1:] for flag in cleaned if flag.startswith("-")}
    added = {flag.removeprefix("+") for flag in cleaned if not flag.startswith("-")}
    return (names | added) - removed
