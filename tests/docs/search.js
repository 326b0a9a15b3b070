// node search.js SITE QUERY...: the first page that Sphinx's search finds for each query.
const fs = require("fs"), vm = require("vm");
const [site, ...queries] = process.argv.slice(2);
const run = (file, edit = (text) => text) =>
  vm.runInThisContext(edit(fs.readFileSync(`${site}/${file}`, "utf8")));

global.document = { addEventListener() {}, getElementById() {}, documentElement: { dataset: {} } };
global.window = global;
Object.assign(global, { _ready() {}, _removeChildren() {}, SPHINX_HIGHLIGHT_ENABLED: false });
for (const file of ["_static/language_data.js", "_static/searchtools.js"]) run(file);
run("searchindex.js", (text) => text.replace("Search.setIndex", "Search._index = "));
const search = vm.runInThisContext("Search");
for (const query of queries) {
  const [best] = search._performSearch(...search._parseQuery(query)).slice(-1);
  console.log(best ? best[0] : "-");
}
