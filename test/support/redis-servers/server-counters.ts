import { respRequest } from './resp-request.ts';

/** Counts of what one server has done since it started. */
export interface ServerCounts {
  /** The scripts that clients sent. */
  readonly messages: number;
  /** Commands besides scripts: those that scripts called, and those that clients sent. */
  readonly calls: number;
  /** The bytes from clients. */
  readonly received: number;
  /** The bytes to clients. */
  readonly sent: number;
  /** Processor time, microseconds. */
  readonly cpuMicros: number;
}

const ASK = ['INFO', 'everything'];
const OWN_COMMANDS = ['info', 'ping'];

/** Reads the counters of one server on this machine, without what it asks itself. */
export class ServerCounters {
  /** The requests that were made here, each on a connection of its own with one write. */
  requests = 0;
  #received = 0;
  #sent = 0;

  constructor(private readonly port: number) {}

  async read(): Promise<ServerCounts> {
    const [receivedBefore, sentBefore] = [this.#received, this.#sent];
    const text = await this.#ask(ASK);
    const valueOf = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)![1]);
    let messages = 0;
    let calls = 0;
    for (const [, name, count] of text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
      if (/^eval(sha)?$/.test(name!)) messages += Number(count);
      else if (!OWN_COMMANDS.includes(name!)) calls += Number(count);
    }
    return {
      messages,
      calls,
      // The request of now is in the count already, its answer is not.
      received: valueOf('total_net_input_bytes') - receivedBefore - lengthOf(ASK),
      sent: valueOf('total_net_output_bytes') - sentBefore,
      cpuMicros: (valueOf('used_cpu_user') + valueOf('used_cpu_sys')) * 1_000_000,
    };
  }

  /** Resolves when what was sent before has been answered: a server serves one connection after the other. */
  async settled(): Promise<void> {
    await this.#ask(['PING']);
  }

  async #ask(command: readonly string[]): Promise<string> {
    const reply = await respRequest({ address: { host: '127.0.0.1', port: this.port } }, command);
    this.requests += 1;
    this.#received += lengthOf(command);
    this.#sent += reply === 'PONG' ? '+PONG\r\n'.length : lengthOf([reply]) - '*1\r\n'.length;
    return reply;
  }
}

/** The length in the Redis protocol. */
function lengthOf(command: readonly string[]): number {
  const parts = command.map((part) => `$${part.length}\r\n${part}\r\n`.length);
  return parts.reduce((sum, part) => sum + part, `*${command.length}\r\n`.length);
}

/** The difference of two readings of some servers, added up. */
export function countsBetween(
  before: readonly ServerCounts[],
  after: readonly ServerCounts[],
): ServerCounts {
  const sum = (name: keyof ServerCounts): number =>
    after.reduce((total, each, index) => total + each[name] - before[index]![name], 0);
  return {
    messages: sum('messages'),
    calls: sum('calls'),
    received: sum('received'),
    sent: sum('sent'),
    cpuMicros: sum('cpuMicros'),
  };
}
