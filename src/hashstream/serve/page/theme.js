// Light and dark: as the system has it, until the reader chooses.

const STORE = "hashstream.theme";
const ICONS = { auto: "◐", light: "☀", dark: "☾" };
const NEXT = { auto: "light", light: "dark", dark: "auto" };

const system = matchMedia("(prefers-color-scheme: dark)");

export const dark = () => document.documentElement.dataset.theme === "dark";

export function startTheme(button) {
  const apply = () => {
    const choice = localStorage.getItem(STORE) ?? "auto";
    const theme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
    document.documentElement.dataset.theme = theme;
    button.textContent = ICONS[choice];
    button.setAttribute("aria-label", `Colours: ${choice === "auto" ? "as the system" : choice}. Change`);
    dispatchEvent(new Event("theme"));
  };
  button.addEventListener("click", () => {
    localStorage.setItem(STORE, NEXT[localStorage.getItem(STORE) ?? "auto"]);
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
