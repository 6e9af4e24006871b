// A formula in a line of text that is wider than the line scrolls by itself, so that the page does not.
// Formulas are drawn where they come into view, so this looks again after each change.
addEventListener("load", () => {
    const article = document.querySelector("article");
    if (!window.MathJax || !article) return;
    const check = () => article.querySelectorAll("mjx-container:not([display])").forEach(formula => {
        const line = formula.closest("p, li, td, dd") ?? article;
        formula.classList.remove("wide");
        formula.classList.toggle("wide", formula.getBoundingClientRect().width > line.clientWidth);
    });
    let waiting = 0;
    const soon = () => { waiting ||= setTimeout(() => { waiting = 0; check(); }, 100); };
    new MutationObserver(soon).observe(article, { childList: true, subtree: true });
    addEventListener("resize", soon);
    soon();
});

// A picture of several panels beside each other is marked, so that it is not made too small on a phone.
addEventListener("load", () => document.querySelectorAll("article img").forEach(picture => {
    picture.classList.toggle("panels", picture.naturalWidth > 2.2 * picture.naturalHeight);
}));
