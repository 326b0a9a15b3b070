"""Placement's certificate expires under a running agent, and is renewed."""

from __future__ import annotations

from pathlib import Path

from tests.matrix.site import Site
from tests.servers.tls import Authority, TlsProxy


def test_it_is_told_with_its_subject_and_date_and_heals_once_it_is_renewed(
    site: Site, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    with TlsProxy(authority, site.placement.port) as proxy:
        site.agent.placement_url = proxy.url
        site.begin(f"[placement]\ncafile = {authority.ca}\n[DEFAULT]\n")
        authority.issue(days=-1, since=-2)
        proxy.read_certificate()
        site.change()
        site.agent.until_logged(
            f"the certificate of 127.0.0.1:{proxy.port} (commonName=a server) expired on"
        )
        authority.issue()
        proxy.read_certificate()
        site.converges()
