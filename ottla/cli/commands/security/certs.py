"""`ottla certs …`"""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli import output
from ottla.cli.commands.servers.start import DEFAULT_DATA
from ottla.cli.options import count_option, directory_option, json_option

_MOST_DAYS = 36500

data_option = directory_option(
    "--data",
    "-d",
    default=DEFAULT_DATA,
    show_default=f"./{DEFAULT_DATA}",
    help="Data directory of a broker started with --secure.",
)
host_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Host name or IP address of the broker. May be repeated.",
)


@click.group(short_help="Show, renew and issue certificates for `ottla start --secure`.")
def certs() -> None:
    """Show and renew the certificates of `ottla start --secure`, and issue client certificates.

    \b
    Examples:
      ottla certs show
      ottla certs renew --data /var/lib/ottla
      ottla certs issue ann --out ~/ann
    """


@certs.command()
@data_option
@json_option()
def show(data: Path, as_json: bool) -> None:
    """Show the certificates of the authority and of the broker."""
    from ottla.cli.jobs.secured_data import SecuredData

    found = SecuredData(data).certificates()
    if as_json:
        output.print_json([each._asdict() for each in found])
        return
    rows = [
        (each.file, each.subject, each.issuer, each.expires, ", ".join(each.hosts) or None) for each in found
    ]
    output.print_table(
        ("FILE", "SUBJECT", "ISSUER", "EXPIRES", "HOSTS"), rows, ("cyan", None, "dim", "bold", None)
    )


@certs.command()
@data_option
@host_option
@count_option("--days", at_most=_MOST_DAYS, default=825, show_default=True, help="Validity in days.")
def renew(data: Path, hosts: tuple[str, ...], days: int) -> None:
    """Renew the broker's key and certificate, for the hosts of the old certificate and any additional hosts.

    A running broker loads it automatically; open connections stay.
    """
    from ottla.cli.jobs.secured_data import SecuredData

    secured = SecuredData(data)
    known = [
        host for each in secured.certificates() if each.file == secured.server.name for host in each.hosts
    ]
    secured.renew([*known, *hosts], days)
    [renewed] = [each for each in secured.certificates() if each.file == secured.server.name]
    output.done(f"The certificate in {secured.server} is valid until {renewed.expires}.")


@certs.command()
@click.argument("name", metavar="NAME")
@data_option
@directory_option("--out", "-o", default=Path(), help="Output directory. [default: the current directory]")
@host_option
@count_option("--days", at_most=_MOST_DAYS, default=365, show_default=True, help="Validity in days.")
def issue(name: str, data: Path, out: Path, hosts: tuple[str, ...], days: int) -> None:
    """Issue a client certificate for listeners with ssl.client.auth: NAME.pem and NAME.key.

    The client's principal is User:CN=NAME, unless ssl.principal.mapping.rules change it.
    """
    from ottla.cli.jobs.secured_data import SecuredData

    secured = SecuredData(data)
    certificate, key = secured.issue(name, hosts, days, out)
    output.done(f"{certificate} and {key} are issued by {secured.authority}.")
    output.note(
        f"In a client: ssl.certificate.location={certificate.absolute()}, ssl.key.location={key.absolute()}."
    )
