"""Digests: at most one mail a person and day, in which nothing stands that they were told before."""

import logging
from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from smtplib import SMTPException
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from portal.common.units import whole_second
from portal.projects.models import User
from portal.proposals.digest_items import SECTIONS, Item, digest_items
from portal.proposals.models import Digest, DigestItem

LINES_MOST = 50
logger = logging.getLogger(__name__)


def digests_send(*, now: datetime) -> int:
    """Send each person's digest of today, from the site's hour on; how many were sent. Again: nothing."""
    local = now.astimezone(ZoneInfo(settings.SITE_ZONE))
    if settings.DIGEST_HOUR < 0 or local.hour < settings.DIGEST_HOUR:
        return 0
    sent = 0
    items = sorted(digest_items(now=now), key=lambda item: item.person.pk)
    for _, group in groupby(items, key=lambda item: item.person.pk):
        mine = list(group)
        if not mine[0].person.email or not mine[0].person.is_active:
            continue
        try:
            sent += digest_send(person=mine[0].person, items=mine, now=now) is not None
        except (SMTPException, OSError) as error:
            logger.warning("A digest could not be sent; it is tried again: %s", error)
    return sent


@transaction.atomic
def digest_send(*, person: User, items: Iterable[Item], now: datetime) -> Digest | None:
    """Send what the person has not been told, unless they had their digest of the day.

    What is told is written before the mail is handed over and kept only if it was: a mail that fails is sent later.
    """
    User.objects.select_for_update(no_key=True).get(pk=person.pk)  # two workers send one mail
    day = now.astimezone(ZoneInfo(settings.SITE_ZONE)).date()
    if Digest.objects.filter(person=person, day=day).exists():
        return None
    told = set(DigestItem.objects.filter(person=person).values_list("key", flat=True))
    fresh = list({item.key: item for item in items if item.key not in told}.values())
    if not fresh:
        return None
    subject, body = _subject(len(fresh)), _body(fresh)
    digest = Digest.objects.create(person=person, day=day, sent_at=whole_second(now), subject=subject, body=body)
    DigestItem.objects.bulk_create(DigestItem(digest=digest, person=person, key=item.key) for item in fresh)
    EmailMessage(subject, body, to=[person.email]).send()
    return digest


def _subject(count: int) -> str:
    return f"{settings.SITE_NAME}: {count} thing{'s' if count > 1 else ''} about budgets"


def _body(items: list[Item]) -> str:
    parts = []
    for section in SECTIONS:
        mine = [item for item in items if item.section == section]
        if mine:
            lines = [_line(item) for item in mine[:LINES_MOST]]
            if len(mine) > LINES_MOST:
                lines.append(f"- and {len(mine) - LINES_MOST} more")
            parts.append("\n".join([section, "", *lines]))
    return "\n\n".join(parts) + "\n"


def _line(item: Item) -> str:
    words = " ".join(item.words.split())
    return f"- {words[:300]}" + (f"\n  {settings.SITE_URL}{item.address}" if settings.SITE_URL else "")
