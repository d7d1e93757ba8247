// Loaded before the first paint (not as a module), so that a remembered theme never flashes in.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("everylabel.theme");
  } catch {
    // Storage may be blocked; the system's preference is a fine answer then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
