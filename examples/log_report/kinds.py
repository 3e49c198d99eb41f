"""Which trouble an nginx message tells of, whatever its numbers, names and addresses are."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A quote within the quoted text, as in "/a"b", is not followed by what follows a closing one;
# a quote that a cut line never closes reaches to the end.
QUOTED = r'"(?:[^"]|"(?![\s,:)]|$))*(?:"|$)'

# What nginx appends about the request; the same trouble comes with ever other values here.
_REQUEST = re.compile(
    r", (?:client|server|request|subrequest|upstream|host|referrer): .*", re.DOTALL
)
_MASKS = (
    (re.compile(QUOTED), '"…"'),
    (re.compile(r"unix:\S*[^\s:,)]"), "unix:…"),
    (re.compile(r"(?<![\w.…])/[^\s:,()]+"), "/…"),
    # An IPv6 address, in brackets or bare; clock times look alike and are masked alike.
    (re.compile(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](?::\d+)?", re.ASCII), "N"),
    (re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]*:){2,}[0-9A-Fa-f.]*(?!\w)", re.ASCII), "N"),
    (re.compile(r"[\w-]*\d(?:[\w.:-]*\w)?", re.ASCII), "N"),
    (re.compile(r"\b[0-9A-Fa-f]{8,}\b", re.ASCII), "N"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One trouble: a pattern over masked messages, its names, and where to look first."""

    name: str
    chinese: str
    pattern: re.Pattern[str]
    advice: str
    chinese_advice: str


def _kind(name: str, chinese: str, pattern: str, advice: str, chinese_advice: str) -> Kind:
    return Kind(
        name=name,
        chinese=chinese,
        pattern=re.compile(pattern),
        advice=advice,
        chinese_advice=chinese_advice,
    )


# The first that matches counts: a reset is a reset, whichever call it broke.
KINDS = (
    _kind(
        "connection reset",
        "连接被重置",
        r"Connection reset by peer",
        "Look for restarts and crashes of the other side at these times.",
        "检查对端在这些时间是否重启或崩溃。",
    ),
    _kind(
        "broken configuration",
        "配置错误",
        r"^(?:unknown directive|unexpected |directive |invalid |unknown |duplicate |conflicting )"
        r"|^\"…\" directive|host not found in upstream|cannot load certificate",
        "Run `nginx -t` before each reload.",
        "每次重新加载前先运行 `nginx -t`。",
    ),
    _kind(
        "port taken",
        "端口被占用",
        r"Address already in use",
        "Another process listens there; find it before the next start.",
        "已有其他进程监听该端口，下次启动前先找到它。",
    ),
    _kind(
        "worker died",
        "工作进程异常退出",
        r"worker process N exited on signal",
        "Look in the kernel log for an out-of-memory kill or a crash.",
        "查看内核日志，确认是内存不足还是程序崩溃。",
    ),
    _kind(
        "disk full",
        "磁盘已满",
        r"No space left on device",
        "Free the disk that holds the named path.",
        "清理日志所示路径所在的磁盘。",
    ),
    _kind(
        "too many open files",
        "打开的文件过多",
        r"Too many open files",
        "Raise `worker_rlimit_nofile`.",
        "调高 `worker_rlimit_nofile`。",
    ),
    _kind(
        "out of worker connections",
        "工作进程连接数不足",
        r"worker_connections are not enough",
        "Raise `worker_connections`, or find out who holds them.",
        "调高 `worker_connections`，或查明连接被谁占用。",
    ),
    _kind(
        "upstream refused",
        "上游拒绝连接",
        r"Connection refused",
        "The application server is down or listens elsewhere.",
        "应用服务未运行，或监听在其他地址。",
    ),
    _kind(
        "upstream unreachable",
        "上游不可达",
        r"No route to host|Host is unreachable|Network is unreachable",
        "Check the address and the route to it.",
        "检查上游地址和网络路由。",
    ),
    _kind(
        "upstream timed out",
        "上游超时",
        r"upstream timed out",
        "Find what the application server waits for.",
        "查明应用服务在等待什么。",
    ),
    _kind(
        "no live upstreams",
        "没有可用的上游",
        r"no live upstreams",
        "Every server of the group failed; see what stopped them.",
        "该组所有上游均已失败，先查明停机原因。",
    ),
    _kind(
        "upstream closed early",
        "上游提前关闭连接",
        r"upstream prematurely closed",
        "Look for crashes in the application's own log.",
        "查看应用自身日志中是否有崩溃。",
    ),
    _kind(
        "bad upstream answer",
        "上游响应无效",
        r"upstream sent ",
        "Compare the answer's header with what nginx accepts.",
        "检查上游响应头是否符合 nginx 的要求。",
    ),
    _kind(
        "upstream socket missing",
        "上游套接字不存在",
        r"unix:… failed \(N: No such file",
        "Start the service that creates this socket.",
        "启动创建该套接字的服务。",
    ),
    _kind(
        "upstream TLS failed",
        "与上游的 TLS 握手失败",
        r"handshaking to upstream|upstream SSL certificate",
        "Check certificate and protocol of the upstream.",
        "检查上游的证书和协议。",
    ),
    _kind(
        "TLS handshake failed",
        "TLS 握手失败",
        r"while SSL handshaking|SSL_do_handshake\(\) failed",
        "Old clients and scanners are normal; a sudden rise is not.",
        "旧客户端和扫描器属正常情况，突然增多则需关注。",
    ),
    _kind(
        "permission denied",
        "权限不足",
        r"Permission denied",
        "Give the worker's user access to the named path.",
        "为工作进程用户授予所示路径的访问权限。",
    ),
    _kind(
        "missing file",
        "文件不存在",
        r"No such file or directory|Not a directory",
        "Repair the links to it; scanners asking for holes need nothing.",
        "修复指向它的链接；扫描器的探测可以忽略。",
    ),
    _kind(
        "body too large",
        "请求体过大",
        r"too large body|too large chunked body",
        "Raise `client_max_body_size` if these uploads are wanted.",
        "若允许此类上传，调高 `client_max_body_size`。",
    ),
    _kind(
        "rate limited",
        "触发限流",
        r"^limiting (?:requests|connections)",
        "See whether it hits customers or a script.",
        "确认被限流的是正常用户还是脚本。",
    ),
    _kind(
        "delayed by rate limit",
        "因限流而延迟",
        r"^delaying request",
        "Nothing to do while it stays rare.",
        "偶尔出现无需处理。",
    ),
    _kind(
        "access forbidden",
        "禁止访问",
        r"access forbidden by rule|directory index of",
        "Make sure that nobody needs these pages.",
        "确认没有人需要访问这些页面。",
    ),
    _kind(
        "failed login",
        "登录失败",
        r"password mismatch|was not found in|no user/password",
        "Many from one address is a guess at passwords: block it.",
        "同一地址大量出现说明有人在猜密码，应予封禁。",
    ),
    _kind(
        "application error",
        "应用程序错误",
        r"FastCGI sent in stderr",
        "Read the application's message; the fault is in its code.",
        "查看应用输出的信息，问题出在应用代码。",
    ),
    _kind(
        "upstream taken out",
        "上游被暂时停用",
        r"upstream server temporarily disabled",
        "The errors before it say why.",
        "原因见之前的错误。",
    ),
    _kind(
        "buffered to disk",
        "缓冲到磁盘",
        r"buffered to a temporary file",
        "Raise the buffer size if it is frequent.",
        "若频繁出现，调大缓冲区。",
    ),
    _kind(
        "bad request",
        "无效请求",
        r"^client sent ",
        "Scanners and broken clients; nothing to do.",
        "来自扫描器或有问题的客户端，无需处理。",
    ),
    _kind(
        "client gone",
        "客户端断开",
        r"client (?:N )?(?:prematurely )?closed|client timed out|\(N: Broken pipe\)",
        "Customers that leave; a sudden rise means slow pages.",
        "用户离开所致，突然增多说明页面变慢。",
    ),
)


def template_of(message: str) -> str:
    """The message without what differs from case to case.

    The request's details are cut off; quoted text, paths, addresses, numbers, and every word
    with a digit in it are masked. Replacing a number or an address by another one therefore
    never changes the result.
    """
    text = _REQUEST.sub("", message).strip()
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def kind_of(template: str) -> Kind | None:
    """The kind of a masked message, or None if nobody has named it yet."""
    return next((kind for kind in KINDS if kind.pattern.search(template)), None)
