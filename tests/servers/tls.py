"""TLS for the servers of tests: a private authority, and a proxy, a broker, a database that use it."""

import datetime
import ipaddress
import os
import shutil
import socket
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.servers.databases import MariaDB
from tests.servers.forwarder import HERE, Forwarder
from tests.servers.ports import free_port
from tests.servers.rabbitmq import RabbitMQ

YEAR = 365.0
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class Authority:
    """``ca``, which nobody trusts by himself, and ``cert`` with ``key`` of servers on this machine."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._name, self._by = _name("a private authority"), _new_key()
        self.ca, self.cert, self.key = (directory / name for name in ("ca", "cert", "key"))
        is_ca = x509.BasicConstraints(ca=True, path_length=0)
        self.ca.write_bytes(_signed(self._name, self._name, self._by, self._by, is_ca, YEAR))
        self.issue()

    def issue(self, days: float = 2.0, since: float = -1.0) -> None:
        """Another certificate for the servers, valid in so many days from now, till others."""
        own = _new_key()
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HERE))])
        self.cert.write_bytes(
            _signed(_name("a server"), self._name, own, self._by, here, days, since)
        )
        self.key.write_bytes(
            own.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def expire(self) -> None:
        """A certificate that was valid until yesterday."""
        self.issue(days=-1.0, since=-2.0)

    def copied(self, directory: Path) -> list[Path]:
        """Authority, certificate and key, for whoever runs there as its owner."""
        copies = [Path(shutil.copy(one, directory)) for one in (self.ca, self.cert, self.key)]
        for one in copies:
            os.chown(one, directory.stat().st_uid, directory.stat().st_gid)
        return copies


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
    days: float,
    since: float = -YEAR,
) -> bytes:
    """With what Python 3.13 insists on: key identifiers, and the key usage of an authority."""
    now = datetime.datetime.now(datetime.UTC)
    of_authority = dict.fromkeys(USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=since))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), False)
    )
    if isinstance(extension, x509.BasicConstraints):
        builder = builder.add_extension(x509.KeyUsage(**of_authority), critical=True)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class TlsProxy(Forwarder):
    """TLS outside, a server of this machine behind it, as in front of Keystone and Placement."""

    def __init__(self, authority: Authority, upstream: int) -> None:
        super().__init__(upstream)
        self._authority, self._context = authority, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.read_certificate()

    def read_certificate(self) -> None:
        """Who connects from now on gets what was issued last; nobody stays connected."""
        self._context.load_cert_chain(self._authority.cert, self._authority.key)
        self.drop()

    @property
    def url(self) -> str:
        return f"https://{HERE}:{self.port}"

    def _outside(self, client: socket.socket) -> socket.socket:
        return self._context.wrap_socket(client, server_side=True)


class SecureRabbitMQ(RabbitMQ):
    """``secure_url`` is for its only user; without TLS there is the health of the broker only."""

    def __init__(self, authority: Authority, user: str, password: str) -> None:
        super().__init__()
        self.authority, self._user, self._password = authority, user, password
        self.secure_port = free_port()

    @property
    def secure_url(self) -> str:
        return f"rabbit://{self._user}:{self._password}@{HERE}:{self.secure_port}/"

    def _prepare(self) -> None:
        super()._prepare()
        with (self.directory / "rabbitmq.conf").open("a") as file:
            file.write(
                f"listeners.ssl.1 = {HERE}:{self.secure_port}\n"
                f"ssl_options.cacertfile = {self.authority.ca}\n"
                f"ssl_options.certfile = {self.authority.cert}\n"
                f"ssl_options.keyfile = {self.authority.key}\n"
                "ssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n"
                f"default_user = {self._user}\ndefault_pass = {self._password}\n"
            )

    def read_certificate(self) -> None:
        """What was issued last holds from now on; nobody stays connected."""
        self.control("eval", "ssl:clear_pem_cache().")
        self.control("close_all_connections", "certificates")


class SecureMariaDB(MariaDB):
    """Users that :meth:`secured` makes have to come over TLS."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.authority = authority

    def secured(self, database: str, user: str, password: str) -> str:
        """A new database of a new user; its URL."""
        self.create(database)
        self.sql(
            f"CREATE USER {user} IDENTIFIED BY '{password}' REQUIRE SSL; "
            f"GRANT ALL ON {database}.* TO {user}"
        )
        return (
            f"mysql+pymysql://{user}:{password}@{HERE}:{self.port}/{database}"
            f"?ssl_ca={self.authority.ca}"
        )

    def read_certificate(self) -> None:
        """What was issued last holds from now on; nobody stays connected."""
        self.authority.copied(self.directory)
        self.sql("FLUSH SSL")
        self.sql("KILL USER registry")

    def _serve(self) -> list[str]:
        ca, cert, key = self.authority.copied(self.directory)
        return [*super()._serve(), f"--ssl-ca={ca}", f"--ssl-cert={cert}", f"--ssl-key={key}"]
