"""A server made with the official package, for tests: on stdio as a program, or as an ASGI app."""

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations


def made() -> MCPServer:
    server = MCPServer("shop", version="3.1")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def price(article: str, count: int = 1) -> dict[str, object]:
        """What an article costs.

        Args:
            article: Its name.
            count: How many.
        """
        return {"article": article, "price": 12 * count}

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"你好，{name}"

    @server.tool(structured_output=False)
    def plain(text: str) -> str:
        """Text alone."""
        return text

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise RuntimeError("库存不足")

    @server.tool()
    def picture() -> Image:
        """A picture."""
        return Image(data=b"\x89PNG 1234", format="png")

    @server.tool(structured_output=False)
    def huge(size: int) -> str:
        """So many characters."""
        return "好" * size

    @server.tool()
    async def slowly(context: Context) -> str:
        """Tell how far it is."""
        await context.report_progress(1, 2, "一半")
        return "done"

    @server.tool()
    async def grow(context: Context) -> str:
        """Offer one tool more."""

        @server.tool()
        def extra(x: int) -> int:
            """One more."""
            return x

        await context.notify_tools_changed()
        return "grown"

    return server


if __name__ == "__main__":
    made().run("stdio")
