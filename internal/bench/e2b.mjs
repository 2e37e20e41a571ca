// Takes samples with E2B's client for JavaScript. Each line of the input is one
// request in JSON, each line of the output its answer: the milliseconds that the
// call took, and what was asked for.
import { createInterface } from 'readline'
import { createRequire } from 'module'
const { Sandbox } = createRequire(process.argv[2] + '/x.js')('e2b')
const box = {}
const options = q => ({ apiUrl: q.at, sandboxUrl: q.at, apiKey: process.env.E2B_API_KEY, domain: 'localhost' })
const calls = {
  create: q => Sandbox.create(options(q)),
  connect: q => Sandbox.connect(q.id, options(q)),
  run: q => box[q.at].commands.run('/bin/true'),
  read: q => box[q.at].files.read('bench'),
  write: q => box[q.at].files.write('bench', 'x'.repeat(4096)),
  kill: q => Sandbox.kill(q.id, options(q)),
}
async function timed(q) {
  const begun = performance.now()
  const got = await calls[q.call](q)
  const took = performance.now() - begun
  if (q.call == 'create' || q.call == 'connect') box[q.at] = got
  return { took, id: got?.sandboxId, exit: got?.exitCode, size: got?.length }
}
for await (const line of createInterface({ input: process.stdin })) {
  const q = JSON.parse(line)
  let a
  try {
    a = await Promise.all(Array.from({ length: q.times ?? 1 }, () => timed(q)))
  } catch (e) {
    a = String(e)
  }
  console.log(JSON.stringify(typeof a == 'string' ? { error: a } : { answers: a }))
}
