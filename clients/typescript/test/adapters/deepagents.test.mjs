// The backend for deepagents, used by an agent that createDeepAgent makes, with a model
// that follows a script, and by itself.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from '@bulkhead/sandbox'
import { SandboxBackend } from '@bulkhead/sandbox/deepagents'
import { ToolMessage } from '@langchain/core/messages'
import { CompositeBackend, createDeepAgent, isSandboxBackend, StateBackend } from 'deepagents'
import { away, thrown } from './common.mjs'
import { ScriptedModel } from './model.mjs'

/** Runs the calls of tools one behind the other, and returns what each has answered. */
async function follow(backend, script) {
  const agent = createDeepAgent({ model: new ScriptedModel(script), backend })
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, { recursionLimit: 10 * script.length + 50 })
  const answers = messages.filter(m => ToolMessage.isInstance(m)).map(m => m.text)
  assert.equal(answers.length, script.length)
  return answers
}

test('an agent uses its tools in the sandbox', async () => {
  await using backend = await SandboxBackend.open()
  assert.ok(isSandboxBackend(backend))
  const answers = await follow(backend, [
    ['write_file', { file_path: '/workspace/app/main.py', content: 'name = "ä"\nprint("hello", name)\nprint("hello", name)\n' }],
    ['read_file', { file_path: '/workspace/app/main.py' }],
    ['edit_file', { file_path: '/workspace/app/main.py', old_string: 'print("hello", name)', new_string: 'print("bye", name)' }],
    ['edit_file', { file_path: '/workspace/app/main.py', old_string: 'print("hello", name)', new_string: 'print("bye", name)', replace_all: true }],
    ['edit_file', { file_path: '/workspace/app/main.py', old_string: 'absent', new_string: '' }],
    ['execute', { command: 'cd app && python3 main.py; echo to stderr >&2; exit 3' }],
    ['grep', { pattern: 'print("bye", name)' }],
    ['grep', { pattern: '.*' }],
    ['glob', { pattern: '**/*.py' }],
    ['ls', { path: '/workspace/app' }],
    ['read_file', { file_path: '/etc/passwd' }],
    ['execute', { command: 'rm -rf /' }],
    ['delete', { file_path: '/workspace/app' }],
    ['ls', { path: '/' }],
  ])
  const expected = [
    /^Successfully wrote/, /name = "ä"\n.*print\("hello", name\)\n/s, /2 times/, /Successfully replaced 2/, /String not found/,
    /^(?=[^]*bye ä\nbye ä\n)(?=[^]*to stderr\n)[^]*\n\[Command failed with exit code 3\]$/, /main\.py:\n  2: print\("bye", name\)\n  3: print\("bye", name\)/,
    /No matches found/, /^\/workspace\/app\/main\.py$/, /^\/workspace\/app\/main\.py \(\d+ bytes\)$/,
    /outside every mount/, /POLICY\.DENY_TOOL/, /^Deleted/, /No files found/,
  ]
  for (const [i, answer] of answers.entries()) assert.match(answer, expected[i], `step ${i}`)
})

test('it is one of several backends of an agent', async () => {
  await using backend = await SandboxBackend.open()
  const answers = await follow(new CompositeBackend(backend, { '/memories/': new StateBackend() }), [
    ['write_file', { file_path: '/memories/note.md', content: 'kept' }],
    ['execute', { command: 'ls -A /workspace; echo $((6 * 7))' }],
  ])
  assert.match(answers[1], /^42\n/)
})

test('the backend by itself', async t => {
  await using sandbox = await Sandbox.open()
  const backend = new SandboxBackend(sandbox)
  assert.equal(backend.id, sandbox.name)

  await t.test('paths', async () => {
    assert.deepEqual(await backend.write('a b/ü.txt', 'one\ntwo\nthree'), { path: 'a b/ü.txt', filesUpdate: null })
    for (const path of ['/workspace/a b/ü.txt', 'a b/ü.txt', './a b/../a b/ü.txt', '/workspace//a b/ü.txt']) assert.equal((await backend.read(path)).content, 'one\ntwo\nthree', path)
    for (const path of ['/etc/hosts', '../etc/hosts', '/workspace/../etc/hosts', '']) assert.ok((await backend.read(path)).error, path)
    assert.equal((await backend.execute("ln -s /etc/passwd out; ln -s 'a b' in; ln -s nowhere dangling; mkdir empty; touch nothing; ln -s / root")).exitCode, 0)
    assert.equal((await backend.read('in/ü.txt', 1, 1)).content, 'two')
    for (const path of ['out', 'root/etc/passwd']) {
      assert.match((await backend.read(path)).error, /CAPABILITY_BLOCKED/)
      assert.match((await backend.write(path, 'x')).error, /CAPABILITY_BLOCKED/)
      assert.match((await backend.edit(path, 'root', 'x')).error, /CAPABILITY_BLOCKED/)
    }
    assert.ok((await backend.grep('root:', '/workspace/root/etc')).error)
    const { files } = await backend.ls('/workspace')
    assert.deepEqual(files.map(f => [f.path, f.is_dir]), [['/workspace/a b/', true], ['/workspace/dangling', false], ['/workspace/empty/', true], ['/workspace/in/', true], ['/workspace/nothing', false], ['/workspace/out', false], ['/workspace/root', false]].sort())
    assert.deepEqual((await backend.ls('empty')).files, [])
    assert.match((await backend.ls('missing')).error, /not there/)
    assert.match((await backend.ls('nothing')).error, /has to be a folder/)
    // A link is removed, and not what it leads to; the workspace stays.
    assert.equal((await backend.delete('in')).error, undefined)
    assert.equal((await backend.read('a b/ü.txt')).error, undefined)
    for (const path of ['/workspace', '/', 'out/..', 'missing']) assert.ok((await backend.delete(path)).error, path)
  })
  await t.test('lines', async () => {
    const read = async (offset, limit) => { const { content, startLine, endLine, nextOffset, totalLines, error } = await backend.read('a b/ü.txt', offset, limit); return error ? 'error' : [content, startLine, endLine, nextOffset, totalLines] }
    assert.deepEqual(await read(), ['one\ntwo\nthree', 1, 3, undefined, 3])
    assert.deepEqual(await read(0, 2), ['one\ntwo', 1, 2, 2, 3])
    assert.deepEqual(await read(2, 9), ['three', 3, 3, undefined, 3])
    assert.deepEqual(await read(-3.5, 1.9), ['one', 1, 1, 1, 3])
    assert.equal(await read(3, 1), 'error')
    assert.deepEqual(await read(NaN, 0), ['', undefined, undefined, undefined, undefined])
    assert.match((await backend.read('nothing')).content, /empty/)
  })
  await t.test('edits', async () => {
    const edit = async (text, ...args) => { await backend.write('edit', text); const r = await backend.edit('edit', ...args); return [r.error ? r.error.match(/not found|\d+ times|is empty/)?.[0] : r.occurrences, (await backend.readRaw('edit')).data.content] }
    assert.deepEqual(await edit('a.b a.b', 'a.b', '$&$1\\'), ['2 times', 'a.b a.b'])
    assert.deepEqual(await edit('a.b a.b', 'a.b', '$&$1\\', true), [2, '$&$1\\ $&$1\\'])
    assert.deepEqual(await edit('aXb', 'a.b', 'c'), ['not found', 'aXb'])
    assert.deepEqual(await edit('\ufeffbom\r\n', 'bom', '🙂'), [1, '\ufeff🙂\r\n'])
    assert.deepEqual(await edit('', '', 'new'), [1, 'new'])
    assert.deepEqual(await edit('old', '', 'new'), ['is empty', 'old'])
    assert.deepEqual(await edit('same', 'same', 'same'), [1, 'same'])
    // Bytes that are no text are not written back as something else.
    await backend.uploadFiles([['bytes', new Uint8Array([97, 255, 98])]])
    assert.match((await backend.edit('bytes', 'a', 'c')).error, /no text/)
    assert.match((await backend.read('bytes')).error, /no text/)
    assert.deepEqual([...(await backend.downloadFiles(['bytes']))[0].content], [97, 255, 98])
    // Of many edits at one time none is lost.
    await backend.write('many', Array.from({ length: 4 }, (_, i) => `<${i}>`).join(''))
    const edits = await Promise.all([0, 1, 2, 3].map(i => backend.edit('many', `<${i}>`, `[${i}]`)))
    const now = (await backend.readRaw('many')).data.content
    for (const [i, { error }] of edits.entries()) assert.equal(now.includes(`[${i}]`), !error, `${now} ${error}`)
    assert.ok(edits.some(e => !e.error))
  })
  await t.test('files that are no text', async () => {
    const picture = Buffer.from('iVBORw0KGgo=', 'base64')
    assert.equal((await backend.write('p.PNG', picture.toString('base64'))).error, undefined)
    assert.deepEqual(await backend.read('p.PNG'), { content: new Uint8Array(picture), mimeType: 'image/png' })
    assert.match((await backend.write('p.png', 'no base64 ä')).error, /base64/)
    const data = new Uint8Array(3_000_000).map((_, i) => i * 31)
    assert.deepEqual(await backend.uploadFiles([['deep/er/data.bin', data], ['/etc/x', data], ['a b', data]]), [{ path: 'deep/er/data.bin', error: null }, { path: '/etc/x', error: 'permission_denied' }, { path: 'a b', error: 'is_directory' }])
    const down = await backend.downloadFiles(['deep/er/data.bin', 'missing', 'a b', '/etc/passwd', 'out'])
    assert.deepEqual(down.map(d => d.error), [null, 'file_not_found', 'is_directory', 'permission_denied', 'permission_denied'])
    assert.equal(Buffer.compare(down[0].content, data), 0)
    assert.match((await new SandboxBackend(sandbox, { maxFileBytes: 10 }).read('edit.none')).error, /not there/)
    assert.match((await new SandboxBackend(sandbox, { maxFileBytes: 10 }).read('deep/er/data.bin')).error, /3000000 bytes/)
  })
  await t.test('grep and glob', async () => {
    await backend.write('src/a.py', "x = re.compile(r'[a-z]+(\\d)*$^|') # -e \"q\" 'p'\nünï\n-n\n")
    await backend.write('src/b.txt', 'ünï here\n')
    const hits = async (...args) => { const r = await backend.grep(...args); return r.error ?? r.matches.map(m => `${m.path}:${m.line}`) }
    for (const pattern of ["re.compile(r'[a-z]+(\\d)*$^|')", '"q" \'p\'', '# -e']) assert.deepEqual(await hits(pattern), ['/workspace/src/a.py:1'], pattern)
    assert.deepEqual(await hits('-n'), ['/workspace/src/a.py:3'])
    assert.deepEqual(await hits('ünï', '/', '*.txt'), ['/workspace/src/b.txt:1'])
    assert.deepEqual(await hits('ünï', 'src'), ['/workspace/src/a.py:2', '/workspace/src/b.txt:1'])
    assert.deepEqual(await hits('ünï', '/workspace/src/b.txt'), ['/workspace/src/b.txt:1'])
    assert.deepEqual(await hits('no such text'), [])
    assert.match(await hits('a\nb'), /several lines/)
    assert.match(await hits(''), /empty/)
    assert.match(await hits('x', 'missing'), /not there|not found/)
    const capped = await backend.grep('ünï', null, null, 1)
    assert.deepEqual([capped.matches.length, capped.truncated], [1, true])
    const found = async (...args) => { const r = await backend.glob(...args); return r.error ?? r.files.map(f => f.path) }
    assert.deepEqual(await found('**/*.py'), ['/workspace/src/a.py'])
    assert.deepEqual(await found('*.py', 'src'), ['/workspace/src/a.py'])
    assert.deepEqual(await found('/src/*.txt'), ['/workspace/src/b.txt'])
    assert.deepEqual(await found('/workspace/src/*.txt'), ['/workspace/src/b.txt'])
    assert.deepEqual(await found('*.none'), [])
    assert.match(await found('['), /malformed/)
    assert.match(await found('*', '/etc'), /outside/)
  })
  await t.test('commands', async () => {
    assert.deepEqual(await backend.execute('printf "a\\377b"; sleep 0.2; echo ä >&2'), { output: 'a\ufffdbä\n', exitCode: 0, truncated: false })
    assert.deepEqual(await backend.execute('exit 7'), { output: '', exitCode: 7, truncated: false })
    assert.equal((await backend.execute('no-such-program')).exitCode, 127)
    const huge = await backend.execute('head -c 20000000 /dev/zero | tr "\\0" x; exit 5')
    assert.deepEqual([huge.output.length, huge.exitCode, huge.truncated], [100_000, 5, true])
    const slow = await new SandboxBackend(sandbox, { timeout: 1 }).execute('echo begun; sleep 1004')
    assert.match(slow.output, /^begun\n.*out of time/s)
    assert.equal(slow.exitCode, 124)
    assert.equal((await backend.execute('pgrep -x sleep -a | grep 1004')).exitCode, 1)
    const denied = await backend.execute('rm -rf /')
    assert.equal(denied.exitCode, null)
    assert.match(denied.output, /POLICY\.DENY_TOOL/)
  })
})

test('a session is the same sandbox again, and one without is gone at the end', async () => {
  const first = await SandboxBackend.open('da-session')
  await first.write('kept', 'yes')
  await first.close()
  const second = await SandboxBackend.open('da-session')
  assert.equal(second.id, first.id)
  assert.equal((await second.read('kept')).content, 'yes')
  await second.sandbox.remove()
  const own = await SandboxBackend.open()
  await own.close()
  assert.equal((await thrown(() => Sandbox.connect(own.id))).code, 'SANDBOX.NOT_FOUND')
})

test('a daemon that is away is no answer for a model', async () => {
  const error = await thrown(() => SandboxBackend.open('x', { url: away }))
  assert.equal(error.code, 'PROVIDER.UNAVAILABLE')
  await using sandbox = await Sandbox.open()
  const backend = new SandboxBackend(sandbox)
  await sandbox.remove()
  // The sandbox is gone; what the daemon says of it is an answer.
  assert.match((await backend.read('x')).error, /SANDBOX\./)
})
