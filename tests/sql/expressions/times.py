"""Dates and times."""

from __future__ import annotations

from datetime import date, datetime, time

from tests.sql.expressions.cases import Case, cases

_ISO = "'yyyy-MM-dd HH:mm:ss.SSS'"

CASES: list[Case] = [
    *cases(
        "PARSE_DATE",
        ("PARSE_DATE('2021-10-11 and more', 'yyyy-MM-dd')", date(2021, 10, 11)),
        ("PARSE_DATE('2021-10-11T12:00', 'yyyy-MM-dd')", date(2021, 10, 11)),
        ("PARSE_DATE('20211011x', 'yyyyMMdd')", date(2021, 10, 11)),
        ("PARSE_DATE('2021-10-11 12:00', 'yyyy-MM-dd HH:mm')", None),
        ("PARSE_DATE('nonsense', 'yyyy-MM-dd')", None),
    ),
    *cases(
        "TIMESTAMPTOSTRING",
        (
            "TIMESTAMPTOSTRING(1625055519446, 'yyyy-MM-dd HH:mm z', 'America/Los_Angeles')",
            "2021-06-30 05:18 PDT",
        ),
        ("TIMESTAMPTOSTRING(1609459200000, 'HH z', 'America/Los_Angeles')", "16 PST"),
        ("TIMESTAMPTOSTRING(1609459200000, 'HH z', 'Europe/Berlin')", "01 CET"),
        ("TIMESTAMPTOSTRING(1625055519446, 'z', 'Europe/Berlin')", "CEST"),
        ("TIMESTAMPTOSTRING(1625055519446, 'HH z', 'UTC')", "12 UTC"),
    ),
    *cases("FORMAT_TIMESTAMP", ("FORMAT_TIMESTAMP(ts, 'HH:mm z', 'Europe/Prague')", "14:18 CEST")),
    *cases("TIMESTAMPADD", ("TIMESTAMPADD(DAYS, 1, '2021-06-30T12:00:00')", datetime(2021, 7, 1, 12))),
    *cases("TIMEADD", ("TIMEADD(HOURS, 2, '23:00:00')", time(1))),
    *cases("DATESUB", ("DATESUB(DAYS, 1, '2021-10-01')", date(2021, 9, 30))),
    *cases(
        "CONVERT_TZ",
        ("CONVERT_TZ(ts, 'UTC', 'America/Los_Angeles')", datetime(2021, 6, 30, 5, 18, 39, 446000)),
        ("CONVERT_TZ(ts, 'Europe/Prague', 'UTC')", datetime(2021, 6, 30, 10, 18, 39, 446000)),
        ("CONVERT_TZ(nt, 'UTC', 'UTC')", None),
    ),
    *cases(
        "DATEADD",
        ("DATEADD(DAYS, 5, dt)", date(2021, 10, 16)),
        ("DATEADD(DAYS, -11, dt)", date(2021, 9, 30)),
        ("DATEADD(HOURS, 36, dt)", date(2021, 10, 12)),
        ("DATEADD(DAYS, ni, dt)", None),
    ),
    *cases("DATESUB", ("DATESUB(DAYS, 11, dt)", date(2021, 9, 30)), ("DATESUB(DAYS, ni, dt)", None)),
    *cases(
        "TIMEADD",
        ("TIMEADD(MINUTES, 10, t)", time(13, 35, 30)),
        ("TIMEADD(HOURS, 12, t)", time(1, 25, 30)),
        ("TIMEADD(MILLISECONDS, 5, t)", time(13, 25, 30, 5000)),
        ("TIMEADD(MINUTES, ni, t)", None),
    ),
    *cases("TIMESUB", ("TIMESUB(HOURS, 14, t)", time(23, 25, 30)), ("TIMESUB(HOURS, ni, t)", None)),
    *cases(
        "TIMESTAMPADD",
        ("TIMESTAMPADD(DAYS, 1, ts)", datetime(2021, 7, 1, 12, 18, 39, 446000)),
        ("TIMESTAMPADD(MILLISECONDS, 4, ts)", datetime(2021, 6, 30, 12, 18, 39, 450000)),
        ("TIMESTAMPADD(DAYS, 1, nt)", None),
        ("TIMESTAMPADD(DAYS, ni, ts)", None),
    ),
    *cases(
        "TIMESTAMPSUB",
        ("TIMESTAMPSUB(HOURS, 13, ts)", datetime(2021, 6, 29, 23, 18, 39, 446000)),
        ("TIMESTAMPSUB(DAYS, 1, nt)", None),
    ),
    *cases(
        "FORMAT_DATE",
        ("FORMAT_DATE(dt, 'yyyy-MM-dd')", "2021-10-11"),
        ("FORMAT_DATE(dt, 'dd/MM/yy')", "11/10/21"),
        ("FORMAT_DATE(dt, 'yyyy''T''')", "2021T"),
    ),
    *cases(
        "FORMAT_TIME",
        ("FORMAT_TIME(t, 'HH:mm')", "13:25"),
        ("FORMAT_TIME(t, 'HH:mm:ss.SSS')", "13:25:30.000"),
        ("FORMAT_TIME(t, '''T''HH')", "T13"),
    ),
    *cases(
        "FORMAT_TIMESTAMP",
        (f"FORMAT_TIMESTAMP(ts, {_ISO})", "2021-06-30 12:18:39.446"),
        (f"FORMAT_TIMESTAMP(ts, {_ISO}, 'Europe/London')", "2021-06-30 13:18:39.446"),
        ("FORMAT_TIMESTAMP(ts, 'yyyy-MM-dd''T''HH:mm:ssX')", "2021-06-30T12:18:39Z"),
        ("FORMAT_TIMESTAMP(ts, 'HH:mmXXX', 'America/Los_Angeles')", "05:18-07:00"),
        ("FORMAT_TIMESTAMP(ts, 'HH:mm''X''Z', 'Asia/Kolkata')", "17:48X+0530"),
        ("FORMAT_TIMESTAMP(ts, 'HH VV', 'Europe/Prague')", "14 Europe/Prague"),
        (f"FORMAT_TIMESTAMP(nt, {_ISO})", None),
    ),
    *cases(
        "PARSE_DATE",
        ("PARSE_DATE('2021-10-11', 'yyyy-MM-dd')", date(2021, 10, 11)),
        ("PARSE_DATE('11.10.2021', 'dd.MM.yyyy')", date(2021, 10, 11)),
        ("PARSE_DATE('x', 'yyyy-MM-dd')", None),
        ("PARSE_DATE(ns, 'yyyy-MM-dd')", None),
    ),
    *cases(
        "PARSE_TIME",
        ("PARSE_TIME('13:25', 'HH:mm')", time(13, 25)),
        ("PARSE_TIME('13:25:30.123', 'HH:mm:ss.SSS')", time(13, 25, 30, 123000)),
        ("PARSE_TIME('x', 'HH:mm')", None),
        ("PARSE_TIME(ns, 'HH:mm')", None),
    ),
    *cases(
        "PARSE_TIMESTAMP",
        (f"PARSE_TIMESTAMP('2021-06-30 12:18:39.446', {_ISO})", datetime(2021, 6, 30, 12, 18, 39, 446000)),
        (
            f"PARSE_TIMESTAMP('2021-06-30 12:18:39.446', {_ISO}, 'America/Los_Angeles')",
            datetime(2021, 6, 30, 19, 18, 39, 446000),
        ),
        (
            "PARSE_TIMESTAMP('2021-06-30T12:18:39+02:00', 'yyyy-MM-dd''T''HH:mm:ssXXX')",
            datetime(2021, 6, 30, 10, 18, 39),
        ),
        (f"PARSE_TIMESTAMP('x', {_ISO})", None),
        (f"PARSE_TIMESTAMP(ns, {_ISO})", None),
    ),
    *cases(
        "TIMESTAMPTOSTRING",
        (f"TIMESTAMPTOSTRING(1625055519446, {_ISO})", "2021-06-30 12:18:39.446"),
        (f"TIMESTAMPTOSTRING(1625055519446, {_ISO}, 'America/Los_Angeles')", "2021-06-30 05:18:39.446"),
        ("TIMESTAMPTOSTRING(1625055519446, 'HH:mm XXX', 'Europe/Prague')", "14:18 +02:00"),
        (f"TIMESTAMPTOSTRING(ni, {_ISO})", None),
    ),
    *cases(
        "STRINGTOTIMESTAMP",
        (f"STRINGTOTIMESTAMP('2021-06-30 12:18:39.446', {_ISO})", 1625055519446),
        (f"STRINGTOTIMESTAMP('2021-06-30 14:18:39.446', {_ISO}, 'Europe/Prague')", 1625055519446),
        (f"STRINGTOTIMESTAMP('x', {_ISO})", None),
    ),
    *cases(
        "DATETOSTRING",
        ("DATETOSTRING(18911, 'yyyy-MM-dd')", "2021-10-11"),
        ("DATETOSTRING(ni, 'yyyy')", None),
    ),
    *cases(
        "STRINGTODATE",
        ("STRINGTODATE('2021-10-11', 'yyyy-MM-dd')", 18911),
        ("STRINGTODATE(ns, 'yyyy')", None),
    ),
    *cases(
        "FROM_DAYS",
        ("FROM_DAYS(18911)", date(2021, 10, 11)),
        ("FROM_DAYS(-1)", date(1969, 12, 31)),
        ("FROM_DAYS(ni)", None),
    ),
    *cases(
        "FROM_UNIXTIME",
        ("FROM_UNIXTIME(1625055519446)", datetime(2021, 6, 30, 12, 18, 39, 446000)),
        ("FROM_UNIXTIME(l * l)", None),
        ("FROM_UNIXTIME(ni)", None),
    ),
    *cases(
        "UNIX_DATE",
        ("UNIX_DATE(dt)", 18911),
        ("UNIX_DATE() > 18911", True),
        ("UNIX_DATE(CAST(ns AS DATE))", None),
    ),
    *cases(
        "UNIX_TIMESTAMP",
        ("UNIX_TIMESTAMP(ts)", 1625055519446),
        ("UNIX_TIMESTAMP() > 1625055519446", True),
        ("UNIX_TIMESTAMP(nt)", None),
    ),
]
