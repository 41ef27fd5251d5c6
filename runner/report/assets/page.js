// Draws each figure when it comes near the window, in the colours of the page, and anew when the reader's scheme changes or the
// page is printed, for which all that is folded is opened.
"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("figure-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };

  function themed(layout, isDark, narrow) {
    const ink = isDark ? "#e8ebee" : "#1a1f24";
    const grid = isDark ? "#39424c" : "#d8dde2";
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: ink, automargin: true };
    return {
      height: 420, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, family: "system-ui, sans-serif" },
      margin: { l: 60, r: 20, t: 30, b: 50 }, hovermode: "closest",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", font: { size: narrow ? 10 : 12 } },
      hoverlabel: { bgcolor: isDark ? "#1e242a" : "#fff", font: { color: ink } },
      ...layout, xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
    };
  }

  const placeOf = (spec) => document.getElementById("plot-" + spec.name);
  const drawn = new Set();

  function draw(spec, isDark) {
    const place = placeOf(spec);
    const ink = isDark ? "#e8ebee" : "#1a1f24";
    const data = spec.data.map((trace) => (trace.error_x ? { ...trace, error_x: { ...trace.error_x, color: ink } } : trace));
    Plotly.react(place, data, themed(spec.layout, isDark, place.clientWidth < 500), config);
    drawn.add(spec);
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      near.unobserve(entry.target);
      draw(specs.find((spec) => placeOf(spec) === entry.target), dark.matches);
    }
  }, { rootMargin: "300px" });
  for (const spec of specs) {
    placeOf(spec).style.height = (spec.layout.height || 420) + "px";
    near.observe(placeOf(spec));
  }
  const redraw = (isDark) => drawn.forEach((spec) => draw(spec, isDark));
  dark.addEventListener("change", () => redraw(dark.matches));
  const opened = new Set();
  window.addEventListener("beforeprint", () => {
    specs.forEach((spec) => draw(spec, false));
    document.querySelectorAll("details:not([open])").forEach((each) => { each.open = true; opened.add(each); });
  });
  window.addEventListener("afterprint", () => {
    redraw(dark.matches);
    opened.forEach((each) => { each.open = false; });
    opened.clear();
  });
})();
