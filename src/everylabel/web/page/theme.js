// Loaded before the first paint (not as a module), so that a remembered theme never flashes in.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("everylabel.theme");
  } catch {
    // Storage may be blocked; the page then follows the system's preference.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
