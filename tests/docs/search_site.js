// The first pages that the site's own search finds, without a browser: node search_site.js SITE QUERY ...
const fs = require("fs")
const path = require("path")
const [site, ...queries] = process.argv.slice(2)
const workers = path.join(site, "assets/javascripts/workers")
const script = fs.readdirSync(workers).find(name => /^search\..*\.js$/.test(name))
const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"))
let heard
globalThis.self = globalThis
globalThis.addEventListener = (kind, listener) => { heard = listener }
globalThis.postMessage = message => answers.push(message)
const answers = []
const wait = async () => {
  while (!answers.length) await new Promise(done => setTimeout(done, 5))
  return answers.shift()
}
const main = async () => {
  (0, eval)(fs.readFileSync(path.join(workers, script), "utf8"))
  heard({ data: { type: 0, data: { ...index, options: { suggest: false } } } })
  await wait()
  const found = {}
  for (const query of queries) {
    heard({ data: { type: 2, data: query } })
    const { data } = await wait()
    found[query] = data.items.map(([page]) => page.location.split("#")[0])
  }
  console.log(JSON.stringify(found))
}
main()
