"""Which addresses are read as what, and what may be reached: without any connection, not even a look-up."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph import FetchFailed, FetchRefused
from agent_graph_providers.fetch import Fetcher
from agent_graph_providers.fetch.address import join, read_address, shown
from agent_graph_providers.fetch.judge import judge_address, judge_name
from agent_graph_providers.fetch.reasons import Refusal
from tests.providers.fetch.kit import Names, connections

pytestmark = pytest.mark.anyio

LOOPBACK = [
    'http://127.0.0.1/',
    'http://127.0.0.1./',
    'http://127.1/',
    'http://127.0.1/',
    'http://127.255.255.254/',
    'http://2130706433/',
    'http://2130706433./',
    'http://017700000001/',
    'http://0x7f000001/',
    'http://0X7F000001/',
    'http://0x7f.1/',
    'http://0x7F.0x0.0x0.0x1/',
    'http://0177.0.0.1/',
    'http://0177.0.0x0.1/',
    'http://00000177.0.0.1/',
    'http://127.0.0.0x1/',
    'http://0x7f.0.1/',
    'http://[::1]/',
    'http://[0:0:0:0:0:0:0:1]/',
    'http://[0000:0000:0000:0000:0000:0000:0000:0001]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[::FFFF:7F00:0001]/',
    'http://[0:0:0:0:0:ffff:127.0.0.1]/',
    'http://[::127.0.0.1]/',
    'http://[::7f00:1]/',
    'http://[::ffff:0:127.0.0.1]/',
    'http://[64:ff9b::127.0.0.1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
    'http://[2002:7f00:0001:1:2:3:4:5]/',
    'http://[2a00:1450:4001::5efe:127.0.0.1]/',
    'http://[2a00:1450:4001::200:5efe:7f00:1]/',
    'http://１２７.0.0.1/',
    'http://①②⑦.⓪.⓪.①/',
    'http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/',
    'http://127。0。0。1/',
    'http://127．0．0．1/',
    'http://127｡0｡0｡1/',
    'http://０ｘ7ｆ.1/',
    'http://127\u200b.0.0.1/',
    'http://12\u00ad7.0.0.1/',
    'HTTP://127.0.0.1/',
    'hTTps://127.0.0.1:443/',
    'http://127.0.0.1:/',
    'http://127.0.0.1?x',
    'http://127.0.0.1#x',
    'http://localhost/',
    'http://localhost./',
    'http://LOCALHOST/',
    'http://LocalHost:8080/',
    'http://a.b.localhost/',
    'http://localhost.localdomain/',
    'http://ip6-localhost/',
    'http://ip6-loopback/',
    'http://ｌｏｃａｌｈｏｓｔ/',
    'http://ⓛocalhost/',
    'http://loc\u00adalhost/',
    'http://host.docker.internal/',
]
PRIVATE = [
    'http://10.0.0.1/',
    'http://10.1/',
    'http://167772161/',
    'http://012.0.0.1/',
    'http://172.16.0.1/',
    'http://172.31.255.255/',
    'http://192.168.0.1/',
    'http://0xc0a80001/',
    'http://192.168.257/',
    'http://100.64.0.1/',
    'http://100.127.255.255/',
    'http://198.18.0.1/',
    'http://198.19.255.255/',
    'http://[fc00::1]/',
    'http://[fd12:3456::1]/',
    'http://[::ffff:10.0.0.1]/',
    'http://[::ffff:a00:1]/',
    'http://[::192.168.0.1]/',
    'http://[64:ff9b::10.0.0.1]/',
    'http://[2002:c0a8:1::1]/',
    'http://printer.local/',
    'http://db.internal/',
    'http://nas.home.arpa/',
]
NEVER = [
    'http://0.0.0.0/',
    'http://0/',
    'http://0x0/',
    'http://00/',
    'http://0.1.2.3/',
    'http://[::]/',
    'http://[0:0:0:0:0:0:0:0]/',
    'http://[::ffff:0.0.0.0]/',
    'http://[::0.0.0.2]/',
    'http://169.254.169.254/latest/meta-data/',
    'http://169.254.169.254./',
    'http://2852039166/',
    'http://0xa9fea9fe/',
    'http://0251.0376.0251.0376/',
    'http://0xa9.0xfe.0xa9.0xfe/',
    'http://169.254.43518/',
    'http://169.16689662/',
    'http://169.254.170.2/v2/credentials',
    'http://169.254.0.1/',
    'http://[::ffff:169.254.169.254]/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[::a9fe:a9fe]/',
    'http://[::ffff:0:a9fe:a9fe]/',
    'http://[64:ff9b::a9fe:a9fe]/',
    'http://[64:ff9b:1::a9fe:a9fe]/',
    'http://[2002:a9fe:a9fe::]/',
    'http://[2002:a9fe:a9fe::1]/',
    'http://[2001:0:a9fe:a9fe::]/',
    'http://[2001:0:4136:e378:8000:63bf:5601:5601]/',
    'http://[2a00::5efe:a9fe:a9fe]/',
    'http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/',
    'http://169。254。169。254/',
    'http://100.100.100.200/',
    'http://[::ffff:100.100.100.200]/',
    'http://168.63.129.16/',
    'http://192.0.0.192/',
    'http://[fd00:ec2::254]/',
    'http://[fd20:ce::254]/',
    'http://[fe80::1]/',
    'http://[fe80::a9fe:a9fe]/',
    'http://[febf::1]/',
    'http://[fec0::1]/',
    'http://[ff02::1]/',
    'http://[ff0e::1]/',
    'http://[100::1]/',
    'http://[2001:db8::1]/',
    'http://[2001:2::1]/',
    'http://[2001:10::1]/',
    'http://[3fff::1]/',
    'http://[5f00::1]/',
    'http://[4000::1]/',
    'http://192.0.0.1/',
    'http://192.0.2.1/',
    'http://198.51.100.1/',
    'http://203.0.113.1/',
    'http://192.88.99.1/',
    'http://224.0.0.1/',
    'http://239.255.255.250/',
    'http://240.0.0.1/',
    'http://255.255.255.255/',
    'http://4294967295/',
    'http://metadata.google.internal/computeMetadata/v1/',
    'http://METADATA.google.internal./',
    'http://metadata/',
    'http://metadata.goog/',
    'http://instance-data/',
]
UNREADABLE = [
    '',
    ' ',
    'x',
    '/etc/passwd',
    'example.com/x.png',
    '//example.com/x.png',
    'file:///etc/passwd',
    'FILE:///etc/passwd',
    'file://127.0.0.1/x',
    'ftp://example.com/x',
    'gopher://127.0.0.1:70/_',
    'dict://127.0.0.1:11211/stat',
    'ldap://127.0.0.1/',
    'jar:http://example.com!/x',
    'javascript:alert(1)',
    'blob:https://example.com/x',
    'ws://example.com/',
    'unix:///var/run/docker.sock',
    'http+unix://%2Fvar%2Frun%2Fdocker.sock/',
    'httpx://example.com/',
    'data:text/plain,x',
    'http:',
    'http:/',
    'http://',
    'http:///',
    'http:///127.0.0.1/',
    'http:127.0.0.1/',
    'http:/127.0.0.1/',
    'https:example.com',
    'http://:80/',
    'http://?',
    'http://#',
    'http://user@example.com/',
    'http://user:pass@example.com/',
    'http://example.com@127.0.0.1/',
    'http://127.0.0.1@example.com/',
    'http://example.com:80@127.0.0.1/',
    'http://@example.com/',
    'http://:@example.com/',
    'http://a@b@example.com/',
    'http://user:p%40ss@example.com/',
    'http://example.com\\@127.0.0.1/',
    'http://127.0.0.1\\@example.com/',
    'http://example.com\\.127.0.0.1/',
    'http:\\\\127.0.0.1\\',
    'http:/\\127.0.0.1/',
    'http://exa mple.com/',
    ' http://example.com/',
    'http://example.com/ ',
    'http://example.com/\r\nHost: x',
    'http://example.com/\n',
    'http://example.com\t/',
    'http://exam\x00ple.com/',
    'http://example.com/\x7f',
    'http://127.0.0.1%2f@example.com/',
    'http://%31%32%37.0.0.1/',
    'http://127.0.0.1%00.example.com/',
    'http://example.com%2f.evil.test/',
    'http://ex%61mple.com/',
    'http://example.com:0/',
    'http://example.com:65536/',
    'http://example.com:99999999/',
    'http://example.com:8a/',
    'http://example.com:-1/',
    'http://example.com:+80/',
    'http://example.com:８０/',
    'http://example.com:80:80/',
    'http://256.0.0.1/',
    'http://127.0.0.256/',
    'http://127.0.65536/',
    'http://4294967296/',
    'http://0x100000000/',
    'http://1.2.3.4.5/',
    'http://1.2.3.08/',
    'http://0x7g.1/',
    'http://foo.0x7f/',
    'http://foo.127/',
    'http://127.0.0..1/',
    'http://1_2.0.0.1/',
    'http://127.0.0.1../',
    'http://.127.0.0.1/',
    'http://./',
    'http://../',
    'http://a..b/',
    'http://.example.com/',
    'http://[::1/',
    'http://::1/',
    'http://::1]/',
    'http://[::1]x/',
    'http://[::1]:x/',
    'http://[[::1]]/',
    'http://[]/',
    'http://[1:2]/',
    'http://[::g]/',
    'http://[::1%25lo]/',
    'http://[::1%lo]/',
    'http://[fe80::1%25eth0]/',
    'http://[v1.fe80]/',
    'http://[127.0.0.1]/',
    'http://[::ffff:0177.0.0.1]/',
    'http://[：：1]/',
    'http://exa<mple.com/',
    'http://exa$mple.com/',
    'http://*.example.com/',
    'http://a⁄b.com/',
    'http://a／b.com/',
    'http://a＠b.com/',
    'http://a：80.com/',
    'http://℀.com/',
    'http://⒈27.0.0.1/',
    f'http://{"a" * 64}.com/',
    f'http://{"a." * 130}com/',
    f'http://example.com/{"a" * 20_000}',
    'http://example.com/\ud83c',
    'http://exa\ud83cmple.com/',
]


@pytest.mark.parametrize('url', [*LOOPBACK, *PRIVATE, *NEVER, *UNREADABLE], ids=ascii)
async def test_refused_before_anything_is_asked(url: str) -> None:
    names = Names()
    with connections() as made, pytest.raises(FetchRefused) as raised:
        await Fetcher(resolve=names).fetch(url)
    assert names.asked == []
    assert made == []
    str(raised.value).encode()
    assert 'was not fetched: ' in str(raised.value)


@pytest.mark.parametrize('url', [*NEVER, *UNREADABLE], ids=ascii)
async def test_never_even_if_local_hosts_are_allowed(url: str) -> None:
    names = Names()
    with connections() as made, pytest.raises(FetchRefused):
        await Fetcher(resolve=names, allow_private=True).fetch(url, allow_private=True)
    assert names.asked == []
    assert made == []


@pytest.mark.parametrize('url', [*LOOPBACK, *PRIVATE], ids=ascii)
async def test_local_hosts_if_allowed(url: str) -> None:
    resolved: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        resolved.append(host)
        return []

    with connections() as made, pytest.raises(FetchFailed):
        await Fetcher(resolve=resolve, connect_timeout=0.5).fetch(url, allow_private=True)
    assert made or resolved


HOST_TEXT = {
    'http://example.com': 'example.com',
    'http://EXAMPLE.com.:80': 'example.com',
    'https://example.com:443/': 'example.com',
    'http://example.com:443/': 'example.com:443',
    'https://example.com:08443/': 'example.com:8443',
    'http://bücher.example/': 'xn--bcher-kva.example',
    'http://faß.example/': 'xn--fa-hia.example',
    'http://a_b.example/': 'a_b.example',
    'http://8.8.8.8/': '8.8.8.8',
    'http://134744072/': '8.8.8.8',
    'http://010.8.8.8/': '8.8.8.8',
    'http://[2606:4700::0:1111]/': '[2606:4700::1111]',
    'http://[2606:4700::1111]:8080/': '[2606:4700::1111]:8080',
    'http://1.2.3.4.example/': '1.2.3.4.example',
    'http://0x7f.example/': '0x7f.example',
    'http://localhost.example.com/': 'localhost.example.com',
    'http://notlocalhost/': 'notlocalhost',
}


@pytest.mark.parametrize(('url', 'authority'), HOST_TEXT.items(), ids=ascii)
async def test_public_hosts_are_written_in_one_way(url: str, authority: str) -> None:
    address = read_address(url)
    assert address.authority == authority
    assert read_address(address.url) == address
    verdict = judge_name(address.host) if isinstance(address.host, str) else judge_address(address.host)
    assert verdict.reach == 'public'


TARGETS = {
    'http://a.test': '/',
    'http://a.test?x=1': '/?x=1',
    'http://a.test/#f?x': '/',
    'http://a.test/ü/b?q=ä': '/%C3%BC/b?q=%C3%A4',
    'http://a.test/%41%zz/"<>|^`{}': '/%41%zz/%22%3C%3E%7C%5E%60%7B%7D',
    'http://a.test/@user/x': '/@user/x',
    'http://a.test/a/../b//c': '/a/../b//c',
    'http://a.test/\u2028\u00a0': '/%E2%80%A8%C2%A0',
}


@pytest.mark.parametrize(('url', 'target'), TARGETS.items(), ids=ascii)
async def test_the_target_is_plain_ascii(url: str, target: str) -> None:
    assert read_address(url).target == target


PUBLIC = (
    '8.8.8.8 1.1.1.1 172.15.255.255 172.32.0.1 100.63.0.1 100.128.0.1 169.253.1.1 192.0.1.1 126.255.255.255 128.0.0.1 '
    '223.255.255.255 11.0.0.1 192.167.0.1 198.17.0.1 198.20.0.1 2606:4700::1111 2a00:1450::5efe:808:808 2002:808:808::1 '
    '64:ff9b::808:808 ::ffff:8.8.8.8'
).split()


@pytest.mark.parametrize('address', PUBLIC)
async def test_public_addresses(address: str) -> None:
    assert judge_address(ip_address(address)).reach == 'public'


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_no_more_is_public_than_python_says(address: IPv4Address) -> None:
    verdict = judge_address(address)
    assert verdict.reach != 'public' or (address.is_global and not address.is_multicast)
    for form in (f'::ffff:{address}', f'::ffff:0:{address}', f'64:ff9b::{address}'):
        assert judge_address(IPv6Address(form)) == verdict
    tunnel = judge_address(IPv6Address((0x2002 << 112) | (int(address) << 80) | 1))
    assert tunnel == verdict


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_no_more_ipv6_is_public_than_python_says(address: IPv6Address) -> None:
    if int(address) >> 112 == 0x2002:  # Python 3.13 calls none of 6to4 global; the one it leads to counts
        inside = IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
        assert judge_address(address) == judge_address(inside)
        return
    assert judge_address(address).reach != 'public' or (address.is_global and not address.is_multicast)


@given(st.integers(0, 2**32 - 1), st.sampled_from(['{}', '{:#x}', '0{:o}']), st.integers(1, 4))
def test_every_spelling_of_a_number_is_the_same_address(number: int, form: str, parts: int) -> None:
    whole = IPv4Address(number)
    first = [number >> (24 - 8 * i) & 255 for i in range(parts - 1)]
    last = number & (2 ** (8 * (5 - parts)) - 1)
    host = '.'.join(form.format(n) for n in [*first, last])
    assert read_address(f'http://{host}/').host == whole


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for url in (text, f'http://{text}', f'http://a.test/{text}', f'http://a.test@{text}'):
        shown(url).encode('ascii')
        try:
            address = read_address(url)
        except Refusal:
            continue
        assert address.url.isascii() and address.url.isprintable() and ' ' not in address.url
        assert read_address(address.url) == address


async def test_an_address_with_a_zone_is_link_local() -> None:
    for text in ('fe80::1%eth0', '::1%1', '2606:4700::1111%eth0'):
        assert judge_address(ip_address(text)).reach == 'never'


SHOWN = {
    'http://user:secret@example.com/x': 'http://***@example.com/x',
    'http://secret@example.com/x': 'http://***@example.com/x',
    'http://user:se/cret@example.com/x': 'http://***@example.com/x',
    'http://user:secret\\@example.com/x': 'http://***@example.com/x',
    'secret@example.com/x': '***@example.com/x',
    '//u:secret@example.com/x': '***@example.com/x',
    'https://example.com/@user/x?token=secret': 'https://example.com/@user/x?...',
    'https://example.com?token=secret': 'https://example.com?...',
    'https://example.com/x#secret': 'https://example.com/x',
    'example.com/x?token=secret': 'example.com/x?...',
    'mailto:secret@example.com': 'mailto:...',
    'data:text/plain,secret': 'data:...',
    'http:user:secret@example.com': 'http:...',
    'http://a.test/\r\nü\ud83c': 'http://a.test/\\r\\n\\xfc\\ud83c',
}


@pytest.mark.parametrize(('url', 'text'), SHOWN.items(), ids=ascii)
async def test_what_a_message_shows_of_an_address(url: str, text: str) -> None:
    assert shown(url) == text
    assert 'secret' not in shown(url)


async def test_what_a_message_shows_is_short() -> None:
    assert len(shown(f'http://a.test/{"a" * 10_000}')) < 200


JOINED = {
    '/y?z': 'https://a.test:8443/y?z',
    'y': 'https://a.test:8443/b/y',
    '../y': 'https://a.test:8443/y',
    '?y': 'https://a.test:8443/b/c?y',
    '//b.test/y': 'https://b.test/y',
    'http://b.test': 'http://b.test/',
    ' /y z ': 'https://a.test:8443/y%20z',
    '/ü': 'https://a.test:8443/%C3%BC',
    '#y': 'https://a.test:8443/b/c?x',
    '': 'https://a.test:8443/b/c?x',
}


@pytest.mark.parametrize(('location', 'url'), JOINED.items(), ids=ascii)
async def test_where_a_redirect_leads(location: str, url: str) -> None:
    assert join(read_address('https://a.test:8443/b/c?x#f'), location).url == url


@pytest.mark.parametrize(
    'location', ['http://[', '//[::1', '/\\b.test', '\\\\b.test', 'http:///x', 'file:///x', '//u@b/']
)
async def test_redirects_that_cannot_be_read(location: str) -> None:
    with pytest.raises(Refusal):
        join(read_address('https://a.test/'), location)
