"""Which CPU a guest of this host gets, and so which features it can count on: HW_CPU_* traits.

    host-model, host-passthrough   the host's features
    custom                         those of each model of ``cpu_models`` together
    none                           those of QEMU's default model

and ``cpu_model_extra_flags`` on top of each.  Models are names; libvirt writes their
features out (:class:`Question`).  Traits of features: :mod:`drivers.libvirt.facts.cpu_traits`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.libvirt.connection.host import Host
from drivers.libvirt.documents import checked, read
from drivers.libvirt.facts.cpu_traits import Features, cpu_traits
from drivers.libvirt.facts.fact import Look, Subject
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
    """What libvirt does not answer is told by the host (``unanswered``)."""

    choice: CpuChoice
    name: str = "CPU features"

    def ask(self, look: Look) -> Features | None:
        """Libvirt's own gaps leave features out."""
        return look.sources.read_or(self.name, lambda: self._features(look), None)

    def judge(self, answer: Features | None, of: Subject) -> HostReport:
        """Of the host's kind of CPU."""
        threads = hyperthreading(of.capabilities)
        return HostReport(traits=cpu_traits(host_cpu(of.capabilities), answer, threads))

    def _features(self, look: Look) -> Features | None:
        cpu, host = host_cpu(look.capabilities), look.host
        known = cpu_models(host, cpu.arch) if self.choice.models and cpu.arch else ()
        asked = questions(cpu, self.choice, known)
        answers = [expanded_cpu(host, one.document, one.name) for one in asked]
        return guest_features(cpu, self.choice, asked, answers)


def expanded_cpu(host: Host, cpu: str, name: str) -> str | None:
    """A <cpu> document with all features of its model, ``name``, written out."""
    flag = host.binding.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    return host.ask_optional(
        f"the features of {name}",
        lambda c: checked(str(c.baselineCPU([cpu], flag)), "cpu"),
        once=True,
    )


def cpu_models(host: Host, arch: str) -> tuple[str, ...]:
    """Names of the CPU models that libvirt knows of an architecture."""
    names = host.ask_optional(
        f"CPU models of {arch}", lambda c: tuple(map(str, c.getCPUModelNames(arch))), once=True
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
