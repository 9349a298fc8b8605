"""A queue of mails: each is composed from a template and delivered, by as many workers as the topic has partitions.

They are delivered to the maildir that `--conf spark.example.maildir=…` names. A mail that is delivered again after a
failure replaces itself, because its file is named after its record.
"""

import os
from email.message import EmailMessage
from pathlib import Path

from pyspark.sql import functions as F

from ottla.spark import json, queries, read_topic

MAIL = json("number BIGINT, letter STRING, name STRING, amount INT, `to` STRING")

LETTERS = {
    "welcome": ("Welcome, {name}", "Dear {name},\n\nit is good to have you here.\n"),
    "receipt": ("Your receipt", "Dear {name},\n\nthank you for your payment of {amount} euros.\n"),
    "reminder": ("A reminder", "Dear {name},\n\nyou still owe us {amount} euros.\n"),
}


class Delivery:
    """What Spark calls in the worker of each partition; a connection to a mail server would be made in open()."""

    def __init__(self, maildir):
        self.maildir = Path(maildir)

    def open(self, partition, _batch):
        for folder in ("tmp", "new", "cur"):
            (self.maildir / folder).mkdir(parents=True, exist_ok=True)
        self.worker = f"worker-{partition}"
        return True

    def process(self, row):
        subject, text = LETTERS[row.letter]
        mail = EmailMessage()
        mail["From"], mail["To"] = "MyShop <shop@example.org>", row.to
        mail["Subject"] = subject.format(name=row.name)
        mail["Message-ID"] = f"<{row.id}@example.org>"
        mail["X-Worker"] = self.worker
        mail.set_content(text.format(name=row.name, amount=row.amount))
        draft = self.maildir / "tmp" / row.id
        draft.write_bytes(bytes(mail))
        os.replace(draft, self.maildir / "new" / row.id)

    def close(self, _error):
        pass


def pipeline(spark):
    mails = read_topic(spark, "mails", value=MAIL, commit_group="mails").select(
        "value.*", F.concat_ws("-", "topic", "partition", "offset").alias("id")
    )
    maildir = os.path.abspath(spark.conf.get("spark.example.maildir", "maildir"))
    return queries.start(mails.writeStream.foreach(Delivery(maildir)), spark, "mails", None, None)
