"""No value of a secret option, and no password in a URL, reaches a log, an error or a report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from keystoneauth1 import loading
from keystonemiddleware import opts as keystone_opts
from oslo_config import cfg
from oslo_messaging import opts as messaging_opts

from agent import opts, placement
from compute_registry import config as registry_config
from drivers.libvirt import opts as libvirt_opts

pytestmark = pytest.mark.slow

URL = "http://user:{}@host/path?token={}"
DATABASE = "connection"
SCHEMES = {
    "transport_url": "rabbit://user:{}@one:5672,user:{}@two:5672/",
    DATABASE: "mysql+pymysql://user:{}@db/name",
}
PROGRAM = """
import logging, signal, sys
from pathlib import Path
from oslo_config import cfg
from agent.bus import messaging
from agent.config import hide_secrets
from agent.reporting import guru, logs
from PACKAGE import config
path, after = map(Path, sys.argv[1:])
args = ["--config-file", str(path), "--debug"]
conf = config.load_config(args)
logs.start(conf, "x")
hide_secrets(conf)
LOG = logging.getLogger("oslo_messaging.any")
url = conf.transport_url
messaging.transport(url, conf.config_file)
conf.log_opt_values(LOG, logging.INFO)
for group in conf:
    LOG.warning("Connecting: %s", conf[group])
try:
    int(url)
except ValueError as err:
    LOG.exception("Can't connect to %s", url.encode())
    logs.complain(f"x: {err}")
path.write_text(after.read_text())
config.reload(conf, args)
conf.log_opt_values(LOG, logging.INFO)
guru.dump(conf, sys._getframe())
path.write_text(path.read_text().replace("= ", "", 1))
try:
    config.reload(conf, args)
except Exception as err:
    LOG.warning("Not reloaded: %s", err)
"""


LISTS = (
    *(opts.list_opts, placement.list_opts, registry_config.list_opts, libvirt_opts.list_opts),
    *(messaging_opts.list_opts, keystone_opts.list_auth_token_opts),
)


def secret_options(*, but: str) -> dict[str, list[cfg.Opt]]:
    """Return the options that are secret, or may have a password in a URL, by group."""
    found: dict[str, list[cfg.Opt]] = {}
    password = loading.get_auth_plugin_conf_options("password")
    for group, options in [each for lists in LISTS for each in lists()] + [("placement", password)]:
        for option in options:
            of_group = found.setdefault(group or "DEFAULT", [])
            known = {but, *(each.dest for each in of_group)}
            is_secret = option.secret or option.dest.endswith(("url", "uri", "override"))
            if is_secret and option.dest not in known:
                of_group.append(option)
    return found


def written(options: dict[str, list[cfg.Opt]], mark: str) -> tuple[str, list[str]]:
    """Return a file with all of them, and the secrets in it."""
    lines, secrets = ["[placement]", "auth_type = password"], list[str]()
    lines += ["[registry]", "access = rpc"]
    for group, them in options.items():
        lines.append(f"[{group}]")
        for option in them:
            secret = f"{mark}{len(secrets)}z"
            secrets.append(secret)
            form = SCHEMES.get(option.name, "{}" if option.secret else URL)
            lines.append(f"{option.dest} = {form.format(secret, secret)}")
    return "\n".join(lines) + "\n", secrets


@pytest.mark.parametrize("package", ["agent", "compute_registry"])
def test_no_secret_reaches_a_log_an_error_or_a_report(tmp_path: Path, package: str) -> None:
    options = secret_options(but=DATABASE if package == "agent" else "none")
    (before, old), (after, new) = written(options, "oldS3cret"), written(options, "newS3cret")
    paths = tmp_path / "a.conf", tmp_path / "after.conf"
    for path, text in zip(paths, (before, after), strict=True):
        path.write_text(text)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("PACKAGE", package)]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert len(old) > 8
    assert [secret for secret in old + new if secret in shown] == []
    for line in ("changed from [", "transport_url", "Guru Meditation", "Not reloaded: Failed"):
        assert line in shown
