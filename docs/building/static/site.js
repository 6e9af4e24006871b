// A formula in a line of text that is wider than the line scrolls by itself, so that the page does not.
addEventListener("load", () => {
    const drawn = window.MathJax?.startup?.promise;
    const check = () => document.querySelectorAll("mjx-container:not([display])").forEach(formula => {
        formula.classList.remove("wide");
        const line = formula.closest("p, li, td, dd") ?? formula.parentElement;
        formula.classList.toggle("wide", formula.getBoundingClientRect().width > line.clientWidth);
    });
    drawn?.then(check);
    addEventListener("resize", () => drawn?.then(check));
});
