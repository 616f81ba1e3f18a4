// Tables and formulas that scroll by themselves can be reached and moved with the keyboard.
addEventListener("load", () => {
  const reach = () => {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap, div.math, .md-typeset pre > code")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  reach();
  addEventListener("resize", reach);
});
