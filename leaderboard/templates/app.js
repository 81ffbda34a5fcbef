// Links within the app go on in its session, as the browser's back and forward do, instead of loading it anew.
if (!window.roarbenchLinks) {
  window.roarbenchLinks = true;
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".stHtml a[href^='?']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    dispatchEvent(new PopStateEvent("popstate"));
    if (!link.closest("thead")) document.querySelector("[data-testid=stMain]").scrollTo(0, 0);
  });
}
