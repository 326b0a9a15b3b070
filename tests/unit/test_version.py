"""Each command tells which version it is: the one of the installed package."""

from importlib import metadata

import pytest

from agent import config
from compute_registry import config as registry_config
from computectl import app


@pytest.mark.parametrize(
    "tell",
    [config.load_config, registry_config.load_config, app.main],
    ids=["agent", "registry", "ctl"],
)
def test_a_command_tells_its_version(tell, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        tell(["--version"])
    assert not ended.value.code
    assert capsys.readouterr().out.split()[-1] == metadata.version("compute-agent")
