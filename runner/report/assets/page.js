// Draws the figures in the colours of the page, and draws them anew when the reader's scheme changes or the page is printed.
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

  function draw(isDark) {
    for (const spec of specs) {
      const place = document.getElementById("plot-" + spec.name);
      Plotly.react(place, spec.data, themed(spec.layout, isDark, place.clientWidth < 500), config);
    }
  }

  draw(dark.matches);
  dark.addEventListener("change", () => draw(dark.matches));
  window.addEventListener("beforeprint", () => draw(false));
  window.addEventListener("afterprint", () => draw(dark.matches));
})();
