// An agent of the OpenAI Agents SDK whose model follows a script.
import { SandboxAgent } from '@openai/agents/sandbox'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'

const answer = ({ request }) => [assistantMessage(`it is ${request.input.at(-1).output.text.split('Output:\n')[1]}`)]

export const assistant = new SandboxAgent({
  name: 'worker',
  instructions: 'work',
  model: new ScriptedModel([[functionCall('exec_command', { cmd: 'echo $((6 * 7))' }, { callId: 'c1' })], { type: 'responder', respond: answer }]),
})
