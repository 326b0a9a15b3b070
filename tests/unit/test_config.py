"""What is read from a configuration, and what is refused with the place to mend."""

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent import config, opts
from compute_registry import config as registry_config
from drivers.libvirt import opts as libvirt_opts
from drivers.opts import register

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = REPOSITORY / "etc" / "compute-agent" / "compute-agent.conf.sample"


def loaded(tmp_path: Path, text: str, *arguments: str):
    path = tmp_path / "agent.conf"
    path.write_text(text)
    return config.load_config(["--config-file", str(path), *arguments])


def settings(tmp_path: Path, text: str, *arguments: str) -> opts.Settings:
    return config.settings(loaded(tmp_path, text, *arguments))


def test_the_defaults_are_those_of_the_reference(tmp_path: Path) -> None:
    found, rules = settings(tmp_path, ""), settings(tmp_path, "").rules
    assert found.drivers == ("libvirt",)
    assert (found.interval, found.spread(None), found.shutdown_within) == (60.0, 120.0, 60.0)
    assert (rules.verify_every, rules.nodes_at_once, rules.remove_after) == (600.0, 8, 900.0)
    assert (rules.reshape_when_running, rules.attached) == (False, False)
    assert rules.owner_traits == ("CUSTOM_OWNER_COMPUTE_AGENT",)


@pytest.mark.parametrize(
    ("text", "setting", "expected"),
    [
        ("[DEFAULT]\nupdate_resources_interval = 0\n", "interval", 60.0),
        ("[DEFAULT]\nupdate_resources_interval = -1\n", "interval", None),
        ("[DEFAULT]\nupdate_resources_interval = 7\n", "interval", 7.0),
        ("[DEFAULT]\ncompute_driver = b, a\n", "drivers", ("b", "a")),
        ("[compute]\nmax_concurrent_nodes = 3\n", "rules.nodes_at_once", 3),
        ("[compute]\nvanished_node_delay = -1\n", "rules.remove_after", None),
        ("[compute]\nroot_provider = attach\n", "rules.attached", True),
        ("[compute]\nresource_provider_association_refresh = 0\n", "rules.verify_every", None),
        ("[compute]\nowner_trait = CUSTOM_MINE\n", "rules.owner_traits", ("CUSTOM_MINE",)),
        (
            "[compute]\nowner_trait = CUSTOM_MINE, OWNER_NOVA\n",
            "rules.owner_traits",
            ("CUSTOM_MINE", "OWNER_NOVA"),
        ),
    ],
)
def test_an_option_means_what_its_reference_says(
    tmp_path: Path, text: str, setting: str, expected: object
) -> None:
    assert attrgetter(setting)(settings(tmp_path, text)) == expected


FLEET = "transport_url = rabbit://\n[registry]\naccess = rpc\n"


@pytest.mark.parametrize(
    ("text", "hosts", "seconds"),
    [
        ("update_resources_interval = 5\n", None, 10.0),
        ("update_resources_interval = -1\n", None, 0.0),
        ("periodic_fuzzy_delay = 0\n", None, 0.0),
        ("", 1, 120.0),  # a registry of one host knows no other
        (FLEET, None, 120.0),
        (FLEET, 10_000, 500.0),
        (f"periodic_fuzzy_delay = 900\n{FLEET}", 10_000, 900.0),
    ],
)
def test_the_first_period_is_delayed_by_two_intervals_or_20_hosts_a_second(
    tmp_path: Path, text: str, hosts: int | None, seconds: float
) -> None:
    assert settings(tmp_path, f"[DEFAULT]\n{text}").spread(hosts) == seconds


def test_arguments_win_over_the_file(tmp_path: Path) -> None:
    text = "[DEFAULT]\ncompute_driver = libvirt\nstate_path = /var/lib/x\n"
    found = settings(tmp_path, text, "--compute-driver", "fake", "--state-path", "/tmp/y")
    assert (found.drivers, found.state_path) == (("fake",), Path("/tmp/y"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[DEFAULT]\nupdate_resources_interval = often\n", "update_resources_interval"),
        ("[DEFAULT]\nupdate_resources_interval = -2\n", "update_resources_interval"),
        ("[DEFAULT]\ncompute_driver = fake, fake\n", "compute_driver = fake, fake: name each"),
        ("[DEFAULT]\ncompute_driver =\n", "compute_driver is empty: name a driver"),
        ("[DEFAULT]\nhost =\n", "host is empty"),
        (f"[DEFAULT]\nhost = {'h' * 256}\n", "host"),
        ("[DEFAULT]\nstate_path =\n", "state_path is empty"),
        ("[compute]\nowner_trait = HW_CPU_X86_AVX\n", "owner_trait"),
        ("[compute]\nowner_trait = CUSTOM_A, HW_CPU_X86_AVX\n", "owner_trait"),
        ("[compute]\nowner_trait =\n", "owner_trait is empty: name a trait"),
        ("[compute]\nowner_trait = x\n", r"agent\.conf:2: .* owner_trait is not valid"),
        ("[compute]\nreshape_when_running = perhaps\n", "reshape_when_running"),
        ("[compute]\nroot_provider = theirs\n", "root_provider"),
        (
            "[placement]\ntimeout = -1\n",
            r"agent\.conf:2: .* timeout is .*greater than or equal to 0",
        ),
        (
            "[placement]\nconnect_retries = many\n",
            r"agent\.conf:2: .* connect-retries is not valid",
        ),
    ],
)
def test_a_value_that_can_not_be_is_refused_by_its_name(tmp_path, text: str, said: str) -> None:
    with pytest.raises(config.ConfigError, match=said):
        settings(tmp_path, text)


def test_a_file_that_is_missing_is_named_with_the_next_step() -> None:
    words, file = "no such configuration file: /nonexistent/x.conf", "/nonexistent/x.conf"
    with pytest.raises(config.ConfigError, match=words):
        config.load_config(["--config-file", file])
    with pytest.raises(config.ConfigError, match=f"{words}; correct it, or give another file"):
        registry_config.load_config(["--config-file", file])


@contextmanager
def not_as_root() -> Iterator[None]:
    us = os.geteuid()
    os.seteuid(us or 65534)
    try:
        yield
    finally:
        os.seteuid(us)


@pytest.mark.parametrize("of", ["file", "directory", "file of a directory"])
def test_what_this_user_may_not_read_is_named_with_who_may(of: str) -> None:
    with TemporaryDirectory() as name:  # pytest's own are for one user
        directory = Path(name, "d")
        path = directory / "agent.conf"
        directory.mkdir()
        path.write_text("[DEFAULT]\nhost = a\n")
        directory.parent.chmod(0o755)
        refused = directory if of == "directory" else path
        refused.chmod(0)
        words = ["--config-file", str(path)] if of == "file" else ["--config-dir", str(directory)]
        with not_as_root():
            for who, load in {"agent": config, "registry": registry_config}.items():
                with pytest.raises(config.ConfigError) as caught:
                    load.load_config(words)
                step = f"run it as root, or as the user of compute-{who}"
                assert str(caught.value).startswith(f"no permission to read {refused}: {step}")
        refused.chmod(0o755)


@pytest.mark.parametrize(
    "option", ["debug", "use_json", "once", "rate_limit_interval", "update_resources_interval"]
)
@pytest.mark.parametrize("directory", [False, True])
def test_a_wrong_value_in_a_file_is_an_error_that_names_the_option(
    tmp_path: Path, option: str, directory: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "agent.conf"
    path.write_text(f"[DEFAULT]\n\n{option} = perhaps\n")
    words = [f"--config-dir={path.parent}"] if directory else ["--config-file", str(path)]
    with pytest.raises(config.ConfigError, match=option.replace("_", "[-_]")) as told:
        config.settings(config.load_config(words))
    assert "LocationInfo" not in str(told.value)
    if option in ("rate_limit_interval", "update_resources_interval"):
        assert re.search(rf"{path}:\d: .* {option} is not valid", str(told.value))
    if option not in ("once", "update_resources_interval"):
        with pytest.raises(config.ConfigError, match=option.replace("_", "[-_]")):
            registry_config.load_config(words)
    assert capsys.readouterr().err == ""


def test_arguments_that_there_are_not_end_with_how_to_use_them(capsys) -> None:
    with pytest.raises(SystemExit):
        config.load_config(["--frobnicate"])
    assert "unrecognized arguments: --frobnicate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[DEFAULT]\nhost = $nothing\n", "host"),
        ("[DEFAULT]\nhost = $host\n", "host"),
        ("[placement]\nregion_name = a$secret\n", "[placement] region_name"),
    ],
)
def test_an_unknown_substitution_names_the_option_and_not_its_value(
    tmp_path: Path, text: str, place: str
) -> None:
    with pytest.raises(config.ConfigError, match=r"write \$\$ for a literal \$") as caught:
        settings(tmp_path, text)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/agent.conf:2: {place}: ")
    assert "secret" not in said and "nothing" not in said


def test_so_does_one_in_a_password(tmp_path: Path) -> None:
    """Its option is known only once the plugin is that logs in."""
    text = "auth_type = password\nauth_url = http://127.0.0.1:1/v3\nusername = a\npassword = b$secret\n"
    with pytest.raises(config.ConfigError, match=r"\[placement\] password: .*\$\$") as caught:
        settings(tmp_path, f"[placement]\n{text}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[DEFAULT]\nno value here\n", r"agent\.conf:2"),
        (b"[DEFAULT]\nhost = caf\xe9\n", r"agent\.conf: the file is not UTF-8 text"),
    ],
)
def test_a_file_that_can_not_be_parsed_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "agent.conf").write_bytes(data)
    with pytest.raises(config.ConfigError, match=said):
        config.load_config(["--config-file", str(tmp_path / "agent.conf")])


def refused(tmp_path: Path, text: str) -> str:
    """The error of a configuration file, with the libvirt driver's options registered."""
    conf = loaded(tmp_path, text)
    register(conf, libvirt_opts.list_opts())
    with pytest.raises(config.ConfigError) as caught:
        config.refuse_unknown(conf)
    return str(caught.value)


LOGIN = "[placement]\nauth_type = password\nauth_url = http://keystone\n"


@pytest.mark.parametrize(
    ("text", "names", "group", "one_of"),
    [
        ("[DEFAULT]\n\nstatepath = /x\n", "statepath", "DEFAULT", "state_path"),
        ("[DEFAULT]\nhots: b\nhost = a\nstate-pth = /x\n", "hots, state-pth", "DEFAULT", "debug"),
        ("[compute]\nreport_numa = true\n", "report_numa", "compute", "owner_trait"),
        (
            "[compute]\n[libvirt]\nconection_timeout = 1\n",
            "conection_timeout",
            "libvirt",
            "rbd_user",
        ),
        ("[monitoring]\nport = 1\nenabled = true\n", "port, enabled", "monitoring", "listen_port"),
        ("[registry]\nservice_timeout = 1\n", "service_timeout", "registry", "access"),
        (f"{LOGIN}url = http://a\n", "url", "placement", "max_concurrency"),
        (f"{LOGIN}user = a\n", "user", "placement", "username"),
        ("[nova]\nhos = 1\n[DEFAULT]\nhos = 1\n", "hos", "DEFAULT", "host"),
    ],
)
def test_an_option_that_nothing_reads_is_refused_with_those_of_its_group(
    tmp_path: Path, text: str, names: str, group: str, one_of: str
) -> None:
    begins, _, options = refused(tmp_path, text).partition(", whose options are ")
    assert begins.endswith(f": no option {names} in [{group}]")
    places = begins.partition(": no ")[0].split(", ")
    written = [Path(place.partition(":")[0]).read_text() for place in places]
    lines = [int(place.rpartition(":")[2]) for place in places]
    said = [re.split("[ :]", w.splitlines()[n - 1])[0] for w, n in zip(written, lines, strict=True)]
    assert said == names.split(", ")
    assert one_of in options.split(", ")


def test_an_option_in_another_group_is_told_with_its_own(tmp_path: Path) -> None:
    said = refused(tmp_path, "[compute]\ncompute_driver = fake\n")
    assert said.endswith("; compute_driver is one of [DEFAULT]")


@pytest.mark.parametrize(
    ("group", "meant"),
    [
        *(("monitor", "monitoring"), ("registy", "registry"), ("compte", "compute")),
        *(("Default", "DEFAULT"), ("libvirtd", "libvirt"), ("placment", "placement")),
    ],
)
def test_a_misspelt_group_is_refused_with_the_one_that_is_meant(
    tmp_path: Path, group: str, meant: str
) -> None:
    text = f"[{group}]\nlisten_port = 1\n[DEFAULT]\nhots = a\n"
    first, second = sorted(
        refused(tmp_path, text).splitlines(), key=lambda line: "[DEFAULT]," in line
    )
    assert first == f"{tmp_path}/agent.conf:1: no group [{group}]: is [{meant}] meant?"
    assert "no option hots in [DEFAULT]" in second


def test_an_unknown_option_in_a_directory_of_files_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "agent.conf").write_text("[DEFAULT]\nhost = a\n")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "more.conf").write_text("[DEFAULT]\nstate-pth = /x\n")
    conf = config.load_config(
        ["--config-file", str(tmp_path / "agent.conf"), "--config-dir", str(tmp_path / "extra")]
    )
    with pytest.raises(config.ConfigError, match=r"extra/more\.conf:2: no option state-pth"):
        config.refuse_unknown(conf)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[DEFAULT]\ntransport_url = rabbit://\nstate-path = /x\nrpc_response_timeout = 5\n",
        "[DEFAULT]\ndebug = true\nlog_file = /dev/null\ndev = false\n",
        "[glance]\napi_servers = x\n[keystone_authtoken]\nwww_authenticate_uri = x\n",
        "[oslo_messaging_rabbit]\nheartbeat_rate = 3\n[database]\nconnection = x\n",
        "[pci]\ndevice_spec = {}\ndevice_spec = {}\n[libvirt]\ncpu_model = Haswell\n",
        f"{LOGIN}user_name = a\nuser-name = a\ntenant_name = service\n",
        "[placement]\nauth_url = http://keystone\n",  # no auth_type: that is the error
        "[placement]\nauth_type = none_such\nauth_url = http://keystone\n",
        "[a_driver_that_is_gone]\nroot = /\n",
        "[placement]\nauth_section = placement2\n[placement2]\nauth_type = none\n",
        "[api_database]\na = 1\n[console]\na = 1\n[metrics]\na = 1\n[api]\na = 1\n",
    ],
)
def test_options_of_libraries_and_older_names_are_not_refused(tmp_path: Path, text: str) -> None:
    conf = loaded(tmp_path, text)
    register(conf, libvirt_opts.list_opts())
    config.refuse_unknown(conf)


def test_the_registry_refuses_unknown_options_but_not_those_of_an_agent(tmp_path: Path) -> None:
    path = tmp_path / "both.conf"
    path.write_text(
        "[DEFAULT]\ncompute_driver = fake\nram_allocation_ratio = 1\ninstances_path = /x\n[compute]\ncpu_shared_set = 1\n[registry]\naccess = rpc\n"
        "[placement]\nmax_concurrency = 1\nauth_type = password\n"
    )
    registry_config.load_config(["--config-file", str(path)])
    for option, group in (("port", "monitoring"), ("control_exchagne", "DEFAULT")):
        path.write_text(f"[{group}]\n{option} = 1\n")
        with pytest.raises(config.ConfigError, match=f": no option {option} in .{group}."):
            registry_config.load_config(["--config-file", str(path)])


def test_the_older_name_of_the_cpu_models_means_the_same(tmp_path: Path) -> None:
    conf = loaded(tmp_path, "[libvirt]\ncpu_model = Haswell\n")
    conf.register_opts(libvirt_opts.LIBVIRT_OPTS, "libvirt")
    assert conf.libvirt.cpu_models == ["Haswell"]


# -- the sample


@pytest.fixture
def generated(tmp_path: Path) -> str:
    path = tmp_path / "sample"
    generator = Path(sysconfig.get_path("scripts"), "oslo-config-generator")
    settings = SAMPLE.with_name("config-generator.conf")
    command = [generator, "--config-file", settings, "--output-file", path]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return path.read_text()


def without_placement(sample: str) -> str:
    """Without the options that are keystoneauth's, and their words with every release."""
    return re.sub(r"(?ms)^# From agent.placement\n#\n.*?(?=^\[|\Z)", "", sample)


@pytest.mark.slow
def test_the_sample_is_what_the_code_says_with_all_it_takes_to_log_in(generated: str) -> None:
    sample = SAMPLE.read_text()
    assert without_placement(sample) == without_placement(generated) != generated, (
        "run: oslo-config-generator --config-file etc/compute-agent/config-generator.conf"
    )
    for option in ("auth_type", "auth_url", "username", "password", "region_name", "cafile"):
        assert f"\n#{option} = " in generated and f"\n#{option} = " in sample


def test_the_sample_says_nothing_of_the_machine_it_was_made_on() -> None:
    assert not re.search(r"^#?host = (?!<)", SAMPLE.read_text(), re.MULTILINE)


def test_the_sample_can_be_used_as_it_is_and_with_each_option_set(tmp_path: Path) -> None:
    conf = loaded(tmp_path, SAMPLE.read_text())
    config.refuse_unknown(conf)
    assert config.settings(conf).drivers == ("libvirt",)
    text = re.sub(r"^#(\w+ = .*)$", r"\1", SAMPLE.read_text(), flags=re.MULTILINE)
    ours = text.partition("[fake]")[0]  # the groups that the agent itself registers
    conf = loaded(tmp_path, re.sub(r"(?ms)^# From drivers.*?(?=^\[|\Z|^# From agent)", "", ours))
    config.refuse_unknown(conf)


@pytest.mark.parametrize("url", ["mysql+pymysql://me:secret@db/x", "sqlite://"])
def test_a_database_that_an_agent_can_not_open_is_refused_at_the_start(tmp_path, url: str) -> None:
    with pytest.raises(config.ConfigError, match=r"\[registry\] connection") as refused:
        settings(tmp_path, f"[registry]\nconnection = {url}\n")
    assert "secret" not in str(refused.value) and "agent.conf:2" in str(refused.value)
    bus = f"[DEFAULT]\ntransport_url = rabbit://x\n[registry]\naccess = rpc\nconnection = {url}\n"
    assert settings(tmp_path, bus).registry.access == "rpc"
