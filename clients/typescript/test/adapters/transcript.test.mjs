// The recorded session of clients/transcript, which has the same results through the
// backend for deepagents and through a session of the AI SDK. TRANSCRIPT names the file.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { sandboxProvider } from '@bulkhead/sandbox/ai-sdk'
import { SandboxBackend } from '@bulkhead/sandbox/deepagents'

const { start, calls, tree } = JSON.parse(readFileSync(process.env.TRANSCRIPT, 'utf8'))
const below = path => path.replace(/^\/workspace\//, '')
const byPath = (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.line - b.line)

/** The tools of a session as methods of the backend. */
function deepagents(backend) {
  return {
    read: async ({ path, offset = 1, limit = 100_000 }) => {
      const { content, error, nextOffset } = await backend.read(path, offset - 1, limit)
      return error ? { failed: true } : { lines: (nextOffset ? content : content.replace(/\n$/, '')).split('\n') }
    },
    write: async ({ path, content }) => ({ failed: !!(await backend.write(path, content)).error }),
    edit: async ({ path, old, new: now, all }) => ({ failed: !!(await backend.edit(path, old, now, all)).error }),
    grep: async ({ pattern, path, glob }) => ({ matches: (await backend.grep(pattern, path, glob)).matches.map(m => ({ ...m, path: below(m.path) })).sort(byPath) }),
    glob: async ({ pattern, path }) => ({ paths: (await backend.glob(pattern, path)).files.map(f => below(f.path)).sort() }),
    list: async ({ path }) => ({ entries: (await backend.ls(path)).files.map(f => ({ name: f.path.replace(/\/$/, '').split('/').at(-1), type: f.is_dir ? 'dir' : 'file' })) }),
    shell: async ({ command }) => {
      const { output, exitCode } = await backend.execute(command)
      return { exit_code: exitCode, output }
    },
  }
}

/** The tools of a session as an agent makes them of files and commands. */
function aiSDK(session) {
  const run = async command => {
    const { exitCode, stdout, stderr } = await session.run({ command })
    return { exit_code: exitCode, stdout, output: stdout + stderr }
  }
  const quote = text => `'${text.replaceAll("'", `'\\''`)}'`
  const rows = text => text.split('\n').filter(Boolean)
  return {
    read: async ({ path, offset = 1, limit = Infinity }) => {
      const content = await session.readTextFile({ path, startLine: offset, endLine: offset + limit - 1 })
      return content === null ? { failed: true } : { lines: content.replace(/\n$/, '').split('\n') }
    },
    write: async ({ path, content }) => {
      await session.writeTextFile({ path, content })
      return { failed: false }
    },
    edit: async ({ path, old, new: now, all }) => {
      const content = await session.readTextFile({ path })
      const places = content?.split(old) ?? []
      if (places.length < 2 || (places.length > 2 && !all)) return { failed: true }
      await session.writeTextFile({ path, content: places.join(now) })
      return { failed: false }
    },
    grep: async ({ pattern, path = '.', glob }) => {
      const { stdout } = await run(`grep -rHnIF ${glob ? `--include=${quote(glob)}` : ''} -e ${quote(pattern)} ${quote(path)}`)
      return { matches: rows(stdout).map(row => /^(?:\.\/)?(.*?):(\d+):(.*)$/.exec(row)).map(([, path, line, text]) => ({ path, line: +line, text })).sort(byPath) }
    },
    glob: async ({ pattern, path = '.' }) => {
      const { stdout } = await run(`bash -O globstar -O nullglob -c 'cd "$1" && for f in ${pattern}; do [ -f "$f" ] && echo "$f"; done; true' bash ${quote(path)}`)
      return { paths: rows(stdout).map(f => (path == '.' ? f : `${path}/${f}`)).sort() }
    },
    list: async ({ path }) => ({ entries: rows((await run(`LC_ALL=C ls -Ap ${quote(path)}`)).stdout).map(row => ({ name: row.replace(/\/$/, ''), type: row.endsWith('/') ? 'dir' : 'file' })) }),
    shell: ({ command }) => run(command),
  }
}

async function replay(tools, write, read) {
  for (const [path, content] of Object.entries(start)) await write(path, content)
  for (const [i, { tool, args, expect }] of calls.entries()) {
    const what = `call ${i}: ${tool} ${JSON.stringify(args)}`
    const got = await (tools[tool] ?? tools.shell)(args)
    if (tool != 'test') {
      // The backend for deepagents has one output, of which stdout is a part.
      if (tool == 'shell') assert.ok((got.stdout ?? got.output).includes(expect.stdout), `${what}: ${got.output}`)
      if (tool == 'shell') delete got.output
      assert.deepEqual({ ...expect, ...got }, expect, what)
      continue
    }
    assert.equal(got.exit_code, expect.exit_code, what)
    for (const text of expect.contains) assert.ok(got.output.includes(text), `${what}: no ${text} in ${got.output}`)
  }
  for (const [path, digest] of Object.entries(tree)) assert.equal(createHash('sha256').update(await read(path)).digest('hex'), digest, path)
}

test('the session has more than 200 calls', () => assert.ok(calls.length >= 200 && Object.keys(tree).length > 0))

test('through the backend for deepagents', async () => {
  await using backend = await SandboxBackend.open()
  await replay(deepagents(backend), async (path, content) => assert.equal((await backend.write(path, content)).error, undefined), path => backend.sandbox.files.read(path))
})

test('through a session of the AI SDK', async t => {
  const session = await sandboxProvider().createSession()
  t.after(() => session.destroy())
  await replay(aiSDK(session), (path, content) => session.writeTextFile({ path, content }), path => session.readBinaryFile({ path }))
})
