// @ts-check
// For every browser, however old: says so where it cannot run the page, whose modules it does not know or does not understand. When
// the page has loaded, a browser that can has begun (main.js).
addEventListener("load", function () {
  var place = document.querySelector("#app .wait");
  if (place && !document.documentElement.hasAttribute("data-begun"))
    place.textContent = "This browser cannot run the page: it lacks ES modules, or is older than 2021. The command line answers the same: headrace plan --help.";
});
