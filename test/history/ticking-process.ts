import { answerQuestions, programSettings } from '../support/program.ts';
import { HistoryFile } from './history-file.ts';
import { recordStalls } from './record-stalls.ts';

// A process that looks after itself and does nothing else, until it is asked something: then it never comes back.

const { historyPath, notePath } = programSettings<{ historyPath: string; notePath: string }>();
recordStalls(new HistoryFile(historyPath), 'ticking', notePath);
answerQuestions(undefined, () => {
  for (;;);
});
